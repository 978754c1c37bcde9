/* SPDX-FileCopyrightText: The KnapFormer authors
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#include <knapformer/knapformer_plan.h>
#include <stdio.h>

int main(void) {
  const int64_t offsets[] = {0, 2, 2};
  const int64_t lengths[] = {1, 1};
  const int64_t costs[] = {30, 50};
  knapformer_plan* plan = NULL;
  knapformer_plan_report report;
  if (knapformer_plan_make(NULL, 2, offsets, lengths, costs, &plan) ||
      knapformer_plan_get_report(plan, &report)) {
    fprintf(stderr, "%s\n", knapformer_error_message());
    return 1;
  }
  printf("max/mean %.3f, before %.3f\n", report.max_over_mean, report.max_over_mean_before);
  knapformer_plan_destroy(&plan);
  return report.max_over_mean == 1.25 && report.max_over_mean_before == 2 ? 0 : 1;
}
