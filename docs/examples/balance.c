/* SPDX-FileCopyrightText: The KnapFormer authors
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

/* Balances the tokens of one step over the ranks that it is started on:
 *     mpirun -n 4 ./balance_c */

#include <knapformer/knapformer.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSequences = 4, kWidth = 64 };

/* All ranks get the same error, so that one word of it is enough. */
static void check(int status) {
  if (status == KNAPFORMER_SUCCESS) return;
  fprintf(stderr, "%s\n", knapformer_error_message());
  MPI_Abort(MPI_COMM_WORLD, 2);
}

/* Stands for the work on tokens, wherever they are. */
static void compute(float* x, int64_t rows) {
  int64_t i;
  for (i = 0; i < rows * kWidth; ++i) x[i] *= 2;
}

static float* make_rows(int64_t rows) {
  return calloc((size_t)(rows * kWidth) + 1, sizeof(float)); /* a rank may have none */
}

int main(int argc, char** argv) {
  knapformer_communicator* group = NULL;
  knapformer_balancer* balancer = NULL;
  knapformer_routing* routing = NULL;
  knapformer_balancer_options options;
  knapformer_layout layout;
  knapformer_plan_report report;
  int64_t i, lengths[kSequences];
  int rank;

  MPI_Init(&argc, &argv);
  check(knapformer_initialize());
  check(knapformer_communicator_create(MPI_COMM_WORLD, NULL, &group));
  rank = knapformer_communicator_rank(group);

  knapformer_balancer_options_init(&options);
  options.plan.topology = "elastic1"; /* nothing is split */
  options.plan.d_model = kWidth;
  options.plan.gamma = 1.0;
  options.plan.heads = 8;
  options.plan.machine.latency = 0; /* an example is too small to be worth a message */
  check(knapformer_balancer_create(group, &options, &balancer));

  for (i = 0; i < kSequences; ++i) lengths[i] = 100 * (rank + 1); /* later ranks have longer ones */
  check(knapformer_balancer_prepare(balancer, kSequences, lengths, NULL, &routing));
  check(knapformer_routing_get_layout(routing, &layout));

  {
    float* tokens = make_rows(layout.home_rows);
    float* moved = make_rows(layout.routed_rows);
    const knapformer_rows there = {.from = tokens,
                                   .from_rows = layout.home_rows,
                                   .to = moved,
                                   .to_rows = layout.routed_rows,
                                   .row_bytes = kWidth * sizeof(float),
                                   .type = KNAPFORMER_FLOAT};
    const knapformer_rows back = {.from = moved,
                                  .from_rows = layout.routed_rows,
                                  .to = tokens,
                                  .to_rows = layout.home_rows,
                                  .row_bytes = kWidth * sizeof(float),
                                  .type = KNAPFORMER_FLOAT};
    for (i = 0; i < layout.home_rows * kWidth; ++i) tokens[i] = (float)rank;
    check(knapformer_routing_move(routing, KNAPFORMER_ROUTE, NULL, 1, &there));
    compute(moved, layout.routed_rows);
    check(knapformer_routing_move(routing, KNAPFORMER_REVERSE_ROUTE, NULL, 1, &back));
    for (i = 0; i < layout.home_rows * kWidth; ++i) { /* every token is home again */
      if (tokens[i] != 2 * (float)rank) check(knapformer_communicator_fail(group, "wrong result"));
    }
    free(tokens);
    free(moved);
  }

  check(knapformer_plan_get_report(knapformer_routing_get_plan(routing), &report));
  printf("rank %d: %ld tokens loaded, %ld computed; largest over mean work %.3f, before %.3f\n",
         rank, (long)layout.home_rows, (long)layout.routed_rows, report.max_over_mean,
         report.max_over_mean_before);

  knapformer_routing_destroy(&routing);
  knapformer_balancer_destroy(&balancer);
  knapformer_communicator_destroy(&group);
  check(knapformer_finalize());
  MPI_Finalize();
  return 0;
}
