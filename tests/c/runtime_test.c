/* SPDX-FileCopyrightText: The KnapFormer authors
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

/* Every movement there and back. That the bytes are those of C++ is tested in equality_test.cpp. */

#include "runtime_test.h"

#include <stdlib.h>

enum { kWidth = 3, kHeads = 4, kHeadWidth = 2 };

static void* allocate(int64_t bytes) { return calloc((size_t)bytes + 1, 1); }

static knapformer_routing* prepare(const group* it) {
  int64_t lengths[kMostSequences];
  const int64_t sequences = fill_lengths(lengths);
  knapformer_routing* routing = NULL;
  CHECK_OK(knapformer_balancer_prepare(it->balancer, sequences, lengths, NULL, &routing));
  return routing;
}

/* Several buffers in one exchange, started. */
static void test_route(const knapformer_routing* routing, const knapformer_layout* layout) {
  double* tokens = allocate(layout->home_rows * kWidth * (int64_t)sizeof(double));
  double* moved = allocate(layout->routed_rows * kWidth * (int64_t)sizeof(double));
  double* restored = allocate(layout->home_rows * kWidth * (int64_t)sizeof(double));
  char* tags = allocate(layout->home_rows);
  char* moved_tags = allocate(layout->routed_rows);
  double sums[2] = {0, 0};
  int64_t i;
  knapformer_request* request = NULL;
  for (i = 0; i < layout->home_rows * kWidth; ++i) tokens[i] = 1000 * rank + (double)i;
  for (i = 0; i < layout->home_rows; ++i) tags[i] = (char)rank;
  {
    const knapformer_rows there[] = {
        {tokens, moved, layout->home_rows, layout->routed_rows, kWidth * sizeof(double),
         KNAPFORMER_DOUBLE},
        {tags, moved_tags, layout->home_rows, layout->routed_rows, 1, KNAPFORMER_BYTES}};
    const knapformer_rows back = {moved,
                                  restored,
                                  layout->routed_rows,
                                  layout->home_rows,
                                  kWidth * sizeof(double),
                                  KNAPFORMER_DOUBLE};
    CHECK_OK(knapformer_routing_start_move(routing, KNAPFORMER_ROUTE, NULL, 2, there, &request));
    CHECK_OK(knapformer_request_wait(&request));
    CHECK(request == NULL);
    CHECK_OK(knapformer_routing_move(routing, KNAPFORMER_ROUTE_ADJOINT, NULL, 1, &back));
  }
  for (i = 0; i < layout->home_rows * kWidth; ++i) CHECK(restored[i] == tokens[i]);
  for (i = 0; i < layout->routed_rows; ++i) {
    CHECK((int)moved[i * kWidth] / 1000 == (int)moved_tags[i]);
  }
  for (i = 0; i < layout->home_rows * kWidth; ++i) sums[0] += tokens[i];
  for (i = 0; i < layout->routed_rows * kWidth; ++i) sums[1] += moved[i];
  MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sums[0] == sums[1] && (sums[0] > 0 || size == 1));
  free(tokens);
  free(moved);
  free(restored);
  free(tags);
  free(moved_tags);
}

static void test_attention(const knapformer_routing* routing, const knapformer_layout* layout) {
  const int64_t bytes = kHeadWidth * sizeof(float);
  float* q = allocate(layout->routed_rows * kHeads * bytes);
  float* heads = allocate(layout->head_rows * bytes);
  float* back = allocate(layout->routed_rows * kHeads * bytes);
  int64_t i, rows = 0;
  for (i = 0; i < layout->routed_rows * kHeads * kHeadWidth; ++i) q[i] = (float)i;
  {
    const knapformer_rows in = {q,     heads,           layout->routed_rows, layout->head_rows,
                                bytes, KNAPFORMER_FLOAT};
    const knapformer_rows out = {
        heads, back, layout->head_rows, layout->routed_rows, bytes, KNAPFORMER_FLOAT};
    CHECK_OK(knapformer_routing_move(routing, KNAPFORMER_PRE_ATTENTION, NULL, 1, &in));
    CHECK_OK(knapformer_routing_move(routing, KNAPFORMER_POST_ATTENTION, NULL, 1, &out));
  }
  for (i = 0; i < layout->routed_rows * kHeads * kHeadWidth; ++i) CHECK(back[i] == q[i]);
  for (i = 0; i < layout->problem_count; ++i) {
    CHECK(layout->problems[i].offset == rows);
    rows += layout->problems[i].length * layout->problems[i].heads;
  }
  CHECK(rows == layout->head_rows && layout->unsplit_head_rows <= rows);
  free(q);
  free(heads);
  free(back);
}

/* Each sequence comes back as often as it has chunks. */
static void test_sequences(const knapformer_routing* routing, const knapformer_layout* layout) {
  knapformer_plan_arrays plan;
  double* own = allocate(layout->home_sequences * (int64_t)sizeof(double));
  double* chunks = allocate(layout->chunk_count * (int64_t)sizeof(double));
  double* sums = allocate(layout->home_sequences * (int64_t)sizeof(double));
  int64_t i, mine = 0;
  CHECK_OK(knapformer_plan_get_arrays(knapformer_routing_get_plan(routing), &plan));
  for (i = 0; i < plan.sequences; ++i) {
    if (plan.homes[i] == rank) own[mine++] = (double)(i + 1);
  }
  CHECK(mine == layout->home_sequences);
  {
    const knapformer_rows out = {own,
                                 chunks,
                                 layout->home_sequences,
                                 layout->chunk_count,
                                 sizeof(double),
                                 KNAPFORMER_DOUBLE};
    const knapformer_rows in = {
        chunks,           sums, layout->chunk_count, layout->home_sequences, sizeof(double),
        KNAPFORMER_DOUBLE};
    CHECK_OK(knapformer_routing_move(routing, KNAPFORMER_ROUTE_SEQUENCES, NULL, 1, &out));
    for (i = 0; i < layout->chunk_count; ++i) {
      CHECK(chunks[i] == (double)(layout->chunks[i].sequence + 1));
      CHECK(layout->chunks[i].chunk.rank == rank);
    }
    CHECK_OK(knapformer_routing_move(routing, KNAPFORMER_ROUTE_SEQUENCES_ADJOINT, NULL, 1, &in));
  }
  for (i = mine = 0; i < plan.sequences; ++i) {
    const int64_t degree = plan.chunk_offsets[i + 1] - plan.chunk_offsets[i];
    if (plan.homes[i] == rank) CHECK(sums[mine++] == (double)(degree * (i + 1)));
  }
  free(own);
  free(chunks);
  free(sums);
}

static void test_all(const knapformer_routing* routing) {
  knapformer_layout layout;
  CHECK_OK(knapformer_routing_get_layout(routing, &layout));
  test_route(routing, &layout);
  test_attention(routing, &layout);
  test_sequences(routing, &layout);
}

static void test_topology(const char* topology) {
  int64_t lengths[kMostSequences];
  const int64_t sequences = fill_lengths(lengths);
  group it = make_group(topology, kHeads);
  knapformer_routing* routing = prepare(&it);
  knapformer_routing* again = NULL;
  knapformer_pending_routing* pending = NULL;
  knapformer_plan_arrays plan, same;
  CHECK_OK(knapformer_balancer_start_prepare(it.balancer, sequences, lengths, NULL, &pending));
  test_all(routing);
  CHECK_OK(knapformer_pending_routing_wait(&pending, &again));
  CHECK(pending == NULL);
  CHECK_OK(knapformer_plan_get_arrays(knapformer_routing_get_plan(routing), &plan));
  CHECK_OK(knapformer_plan_get_arrays(knapformer_routing_get_plan(again), &same));
  CHECK(plan.hash == same.hash && plan.ranks == size);
  knapformer_routing_destroy(&again);
  CHECK_OK(
      knapformer_routing_create(it.communicator, knapformer_routing_get_plan(routing), &again));
  knapformer_routing_destroy(&routing);
  test_all(again);
  knapformer_balancer_destroy(&it.balancer); /* routings live longer */
  test_all(again);
  knapformer_routing_destroy(&again);
  knapformer_routing_destroy(&again);
  CHECK_OK(knapformer_communicator_barrier(it.communicator));
  destroy_group(&it);
}

/* Every rank of a pair says how long it took, and the plans follow. */
static void test_speeds(void) {
  const int64_t lengths[] = {100, 100, 100, 100};
  double speeds[64] = {0};
  int step, r;
  group it = make_group("elastic", 1);
  knapformer_times times;
  for (step = 0; step < 5; ++step) {
    knapformer_routing* routing = NULL;
    CHECK_OK(knapformer_balancer_prepare(it.balancer, 4, lengths, NULL, &routing));
    CHECK_OK(knapformer_balancer_observe(it.balancer, routing, rank == 0 ? 2.0 : 1.0));
    CHECK_ERROR(knapformer_balancer_observe(it.balancer, routing, -1), KNAPFORMER_INVALID, "-1");
    knapformer_routing_destroy(&routing);
  }
  CHECK_OK(knapformer_balancer_get_speeds(it.balancer, size, speeds));
  for (r = 1; r < size; ++r) CHECK(speeds[r] > speeds[0]);
  CHECK_ERROR(knapformer_balancer_get_speeds(it.balancer, size + 1, speeds), KNAPFORMER_INVALID,
              "speeds are asked for");
  CHECK_OK(knapformer_communicator_get_times(it.communicator, &times));
  CHECK(times.waited >= 0 && times.hidden >= 0);
  destroy_group(&it);
}

static void test_split(void) {
  group it = make_group("elastic", 1);
  knapformer_communicator* half = NULL;
  knapformer_communicator* same = NULL;
  CHECK_OK(knapformer_communicator_split(it.communicator, 1, &half));
  CHECK(knapformer_communicator_size(half) == 1 && knapformer_communicator_rank(half) == 0);
  knapformer_communicator_destroy(&half);
  CHECK_ERROR(knapformer_communicator_split(it.communicator, size + 1, &half), KNAPFORMER_INVALID,
              "do not divide");
  CHECK_OK(knapformer_communicator_create_f(MPI_Comm_c2f(MPI_COMM_WORLD), NULL, &same));
  CHECK(knapformer_communicator_size(same) == size && knapformer_communicator_rank(same) == rank);
  knapformer_communicator_destroy(&same);
  destroy_group(&it);
}

void test_movements(void) {
  char one_bag[32];
  snprintf(one_bag, sizeof one_bag, "g%dn1", size);
  test_topology("elastic");
  test_topology(one_bag);
  test_speeds();
  test_split();
}
