/* SPDX-FileCopyrightText: The KnapFormer authors
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

/* The planner alone, in C. */

#include <math.h>
#include <stdlib.h>

#include "check.h"

int failures = 0;

static const int64_t kOffsets[] = {0, 4, 4, 4, 4};
static const int64_t kLengths[] = {100, 200, 300, 400};

static void test_plan(void) {
  knapformer_plan_options options;
  knapformer_plan* plan = NULL;
  knapformer_plan_arrays arrays;
  knapformer_plan_report report;
  int64_t i, tokens = 0;
  knapformer_plan_options_init(&options);
  options.topology = "g1n2+g2n1";
  options.d_model = 64;
  options.heads = 8;
  options.machine.bandwidth_within = options.machine.bandwidth_between = INFINITY;
  options.machine.latency = 0; /* the loads alone count */
  CHECK_OK(knapformer_plan_make(&options, 4, kOffsets, kLengths, NULL, &plan));
  CHECK_OK(knapformer_plan_get_arrays(plan, &arrays));
  CHECK(arrays.ranks == 4 && arrays.heads == 8 && arrays.sequences == 4);
  CHECK(arrays.chunk_offsets[0] == 0 && arrays.chunk_offsets[4] == arrays.chunk_count);
  for (i = 0; i < 4; ++i) CHECK(arrays.homes[i] == 0 && arrays.lengths[i] == kLengths[i]);
  for (i = 0; i < arrays.chunk_count; ++i) tokens += arrays.chunks[i].tokens;
  CHECK(tokens == 1000);
  CHECK_OK(knapformer_plan_get_report(plan, &report));
  CHECK(report.ranks == 4 && report.total_tokens == 1000 && report.tokens_before[0] == 1000);
  CHECK(report.max_over_mean_before == 4);
  CHECK(report.max_over_mean >= 1 && report.max_over_mean < 2);
  CHECK(report.lower_bound > 0 && report.lower_bound_gap >= 0);
  tokens = 0;
  for (i = 0; i < 4; ++i) tokens += report.tokens_after[i];
  CHECK(tokens == 1000);
  knapformer_plan_destroy(&plan);
  CHECK(plan == NULL);
  knapformer_plan_destroy(&plan); /* a second time does nothing */
  knapformer_plan_destroy(NULL);
}

static void test_costs(void) {
  const int64_t costs[] = {7, 1, 1, 1};
  const int64_t offsets[] = {0, 4, 4};
  knapformer_plan* plan = NULL;
  knapformer_plan_report report;
  knapformer_plan_options options;
  knapformer_plan_options_init(&options);
  CHECK_OK(knapformer_plan_make(NULL, 2, offsets, kLengths, costs, &plan));
  CHECK_OK(knapformer_plan_get_report(plan, &report));
  CHECK(report.work_before[0] == 10 && report.work_before[1] == 0);
  CHECK(report.max_over_mean == 1.4); /* one head: nothing is split */
  knapformer_plan_destroy(&plan);
  options.balance = 0;
  CHECK_OK(knapformer_plan_make(&options, 2, offsets, kLengths, costs, &plan));
  CHECK_OK(knapformer_plan_get_report(plan, &report));
  CHECK(report.max_over_mean == 2 && report.moved_tokens == 0);
  knapformer_plan_destroy(&plan);
}

static void test_nothing(void) {
  const int64_t offsets[] = {0, 0, 0};
  knapformer_plan* plan = NULL;
  knapformer_plan_arrays arrays;
  knapformer_plan_report report;
  CHECK_OK(knapformer_plan_make(NULL, 2, offsets, NULL, NULL, &plan));
  CHECK_OK(knapformer_plan_get_arrays(plan, &arrays));
  CHECK(arrays.sequences == 0 && arrays.chunk_count == 0 && arrays.chunk_offsets[0] == 0);
  CHECK_OK(knapformer_plan_get_report(plan, &report));
  CHECK(report.total_tokens == 0 && report.max_over_mean == 1);
  knapformer_plan_destroy(&plan);
}

static void test_null(void) {
  knapformer_plan* plan = NULL;
  knapformer_plan_arrays arrays;
  knapformer_plan_report report;
  CHECK_ERROR(knapformer_plan_make(NULL, 4, kOffsets, kLengths, NULL, NULL), KNAPFORMER_INVALID,
              "knapformer_plan_make: plan is NULL");
  CHECK_ERROR(knapformer_plan_make(NULL, 4, NULL, kLengths, NULL, &plan), KNAPFORMER_INVALID,
              "offsets is NULL");
  CHECK_ERROR(knapformer_plan_make(NULL, 4, kOffsets, NULL, NULL, &plan), KNAPFORMER_INVALID,
              "lengths is NULL");
  CHECK(plan == NULL);
  CHECK_ERROR(knapformer_plan_get_arrays(NULL, &arrays), KNAPFORMER_INVALID, "plan is NULL");
  CHECK_ERROR(knapformer_plan_get_report(NULL, &report), KNAPFORMER_INVALID, "plan is NULL");
  CHECK_OK(knapformer_plan_make(NULL, 4, kOffsets, kLengths, NULL, &plan));
  CHECK_ERROR(knapformer_plan_get_arrays(plan, NULL), KNAPFORMER_INVALID, "arrays is NULL");
  CHECK_ERROR(knapformer_plan_get_report(plan, NULL), KNAPFORMER_INVALID, "report is NULL");
  knapformer_plan_destroy(&plan);
  knapformer_plan_options_init(NULL);
}

/* What plan_make says about options after `change` and with these numbers of sequences. */
#define CHECK_REFUSED(change, ranks, offsets, text)                                       \
  do {                                                                                    \
    knapformer_plan* refused = NULL;                                                      \
    knapformer_plan_options options;                                                      \
    knapformer_plan_options_init(&options);                                               \
    change;                                                                               \
    CHECK_ERROR(knapformer_plan_make(&options, ranks, offsets, kLengths, NULL, &refused), \
                KNAPFORMER_INVALID, text);                                                \
    CHECK(refused == NULL);                                                               \
  } while (0)

static void test_refusals(void) {
  static char long_name[10001];
  const double speeds[] = {1, 2};
  const int64_t negative[] = {0, 4, 3, 4, 4};
  const int64_t late[] = {1, 4, 4, 4, 4};
  CHECK_REFUSED(options.topology = "g4n8x", 4, kOffsets, "g4n8x");
  CHECK_REFUSED(options.topology = NULL, 4, kOffsets, "options.topology is NULL");
  CHECK_REFUSED(options.topology = "g4n8", 4, kOffsets, "32");
  CHECK_REFUSED(options.d_model = 0, 4, kOffsets, "0");
  CHECK_REFUSED(options.gamma = NAN, 4, kOffsets, "nan");
  CHECK_REFUSED(options.heads = -1, 4, kOffsets, "-1");
  CHECK_REFUSED(options.budget = -7, 4, kOffsets, "-7");
  CHECK_REFUSED(options.max_tokens_per_rank = 10, 4, kOffsets, "10");
  CHECK_REFUSED(options.machine.flops = 0, 4, kOffsets, "FLOP/s");
  CHECK_REFUSED(options.machine.speed_count = 4, 4, kOffsets, "options.machine.speeds is NULL");
  CHECK_REFUSED(options.machine.speed_count = -4, 4, kOffsets, "-4");
  CHECK_REFUSED(options.machine.speeds = speeds;
                options.machine.speed_count = 2, 4, kOffsets, "2 speeds");
  CHECK_REFUSED(memset(&options, 0, sizeof options), 4, kOffsets, "knapformer_plan_options_init");
  CHECK_REFUSED(, 0, kOffsets, "0 ranks");
  CHECK_REFUSED(, INT64_MAX, kOffsets, "9223372036854775807 ranks");
  CHECK_REFUSED(, 4, negative, "offsets[1] is 4 and the next one 3");
  CHECK_REFUSED(, 4, late, "offsets[0] is 1");
  memset(long_name, 'x', sizeof long_name - 1);
  CHECK_REFUSED(options.topology = long_name, 4, kOffsets, "xxx");
  CHECK(strlen(knapformer_error_message()) < 4096);
}

int main(void) {
  CHECK(strcmp(knapformer_error_message(), "") == 0);
  CHECK(strchr(knapformer_version(), '.') != NULL);
  test_plan();
  test_costs();
  test_nothing();
  test_null();
  test_refusals();
  printf("%d failures\n", failures);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
