/* SPDX-FileCopyrightText: The KnapFormer authors
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

/* The runtime in C: what it takes to start and to end, and the tests of the other files. */

#include <stdlib.h>

#include "runtime_test.h"

int failures = 0;
int rank = 0, size = 1;

group make_group(const char* topology, int64_t heads) {
  group it = {NULL, NULL};
  knapformer_communicator_options options;
  knapformer_balancer_options balancing;
  knapformer_communicator_options_init(&options);
  options.timeout_seconds = 30;
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_OK(knapformer_communicator_create(MPI_COMM_WORLD, &options, &it.communicator));
  knapformer_balancer_options_init(&balancing);
  balancing.plan.topology = topology;
  balancing.plan.d_model = 16;
  balancing.plan.heads = heads;
  CHECK_OK(knapformer_balancer_create(it.communicator, &balancing, &it.balancer));
  MPI_Barrier(MPI_COMM_WORLD);
  return it;
}

void destroy_group(group* it) {
  knapformer_balancer_destroy(&it->balancer);
  knapformer_communicator_destroy(&it->communicator);
  MPI_Barrier(MPI_COMM_WORLD);
}

int64_t fill_lengths(int64_t* lengths) {
  int64_t i;
  for (i = 0; i < rank; ++i) lengths[i] = i == 1 ? 0 : 40 + 10 * i;
  return rank;
}

static void test_before_start(void) {
  knapformer_communicator* communicator = NULL;
  CHECK_ERROR(knapformer_communicator_create(MPI_COMM_WORLD, NULL, &communicator),
              KNAPFORMER_INVALID, "call knapformer_initialize");
  CHECK_ERROR(knapformer_finalize(), KNAPFORMER_INVALID, "no knapformer_initialize");
  CHECK_ERROR(knapformer_exec_fence(NULL), KNAPFORMER_INVALID, "call knapformer_initialize");
}

static void test_nested_start(void) {
  CHECK_OK(knapformer_initialize());
  CHECK_OK(knapformer_finalize());
  CHECK_OK(knapformer_exec_fence(NULL)); /* still there */
}

static void test_end(void) {
  group it = make_group("elastic", 1);
  CHECK_ERROR(knapformer_finalize(), KNAPFORMER_INVALID, "handles that still exist: 2");
  destroy_group(&it);
  CHECK_OK(knapformer_finalize());
  CHECK_ERROR(knapformer_finalize(), KNAPFORMER_INVALID, "no knapformer_initialize");
  CHECK_ERROR(knapformer_initialize(), KNAPFORMER_INVALID, "cannot be initialised again");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_before_start();
  CHECK_OK(knapformer_initialize());
  test_nested_start();
  test_movements();
  test_errors();
  test_end();
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d failures\n", failures);
  MPI_Finalize();
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
