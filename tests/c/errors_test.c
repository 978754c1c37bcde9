/* SPDX-FileCopyrightText: The KnapFormer authors
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

/* One rank does something wrong: all ranks return the same status and say the same, and none
 * hangs. */

#include <stddef.h>

#include "runtime_test.h"

/* The message of this rank is that of rank 0, and tells of `text`. */
static void check_same_message(int status, int expected, const char* text) {
  char first[4096] = "";
  snprintf(first, sizeof first, "%s", knapformer_error_message());
  MPI_Bcast(first, (int)sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
  CHECK(status == expected);
  CHECK(strcmp(first, knapformer_error_message()) == 0);
  CHECK(strstr(first, text) != NULL);
}

static int is_last(void) { return rank == size - 1; }

static void test_null(void) {
  knapformer_communicator* communicator = NULL;
  knapformer_balancer* balancer = NULL;
  knapformer_routing* routing = NULL;
  knapformer_pending_routing* pending = NULL;
  knapformer_request* request = NULL;
  knapformer_exec* exec = NULL;
  knapformer_layout layout;
  knapformer_times times;
  int on_host = 0;
  CHECK_ERROR(knapformer_communicator_create(MPI_COMM_NULL, NULL, &communicator),
              KNAPFORMER_INVALID, "MPI_COMM_NULL");
  CHECK_ERROR(knapformer_communicator_create(MPI_COMM_WORLD, NULL, NULL), KNAPFORMER_INVALID,
              "communicator is NULL");
  CHECK_ERROR(knapformer_communicator_split(NULL, 1, &communicator), KNAPFORMER_INVALID,
              "communicator is NULL");
  CHECK(knapformer_communicator_rank(NULL) == -1 && knapformer_communicator_size(NULL) == -1);
  CHECK_ERROR(knapformer_communicator_fail(NULL, "x"), KNAPFORMER_INVALID, "communicator is NULL");
  CHECK_ERROR(knapformer_communicator_barrier(NULL), KNAPFORMER_INVALID, "communicator is NULL");
  CHECK_ERROR(knapformer_communicator_get_times(NULL, &times), KNAPFORMER_INVALID,
              "communicator is NULL");
  CHECK_ERROR(knapformer_balancer_create(NULL, NULL, &balancer), KNAPFORMER_INVALID,
              "communicator is NULL");
  CHECK_ERROR(knapformer_balancer_prepare(NULL, 0, NULL, NULL, &routing), KNAPFORMER_INVALID,
              "balancer is NULL");
  CHECK_ERROR(knapformer_balancer_start_prepare(NULL, 0, NULL, NULL, &pending), KNAPFORMER_INVALID,
              "balancer is NULL");
  CHECK_ERROR(knapformer_pending_routing_wait(&pending, &routing), KNAPFORMER_INVALID,
              "pending is NULL");
  CHECK_ERROR(knapformer_pending_routing_wait(NULL, &routing), KNAPFORMER_INVALID,
              "pending is NULL");
  CHECK_ERROR(knapformer_balancer_observe(NULL, NULL, 1), KNAPFORMER_INVALID, "balancer is NULL");
  CHECK_ERROR(knapformer_balancer_get_speeds(NULL, 0, NULL), KNAPFORMER_INVALID,
              "balancer is NULL");
  CHECK_ERROR(knapformer_routing_create(NULL, NULL, &routing), KNAPFORMER_INVALID,
              "communicator is NULL");
  CHECK_ERROR(knapformer_routing_get_layout(NULL, &layout), KNAPFORMER_INVALID, "routing is NULL");
  CHECK(knapformer_routing_get_plan(NULL) == NULL);
  CHECK_ERROR(knapformer_routing_move(NULL, KNAPFORMER_ROUTE, NULL, 0, NULL), KNAPFORMER_INVALID,
              "routing is NULL");
  CHECK_ERROR(knapformer_routing_start_move(NULL, KNAPFORMER_ROUTE, NULL, 0, NULL, &request),
              KNAPFORMER_INVALID, "routing is NULL");
  CHECK_ERROR(knapformer_request_wait(&request), KNAPFORMER_INVALID, "request is NULL");
  CHECK_ERROR(knapformer_request_wait(NULL), KNAPFORMER_INVALID, "request is NULL");
  CHECK_ERROR(knapformer_exec_create(NULL, NULL), KNAPFORMER_INVALID, "exec is NULL");
  CHECK_ERROR(knapformer_exec_create(&on_host, &exec), KNAPFORMER_INVALID, "no streams");
  knapformer_communicator_destroy(NULL);
  knapformer_communicator_destroy(&communicator);
  knapformer_balancer_destroy(NULL);
  knapformer_balancer_destroy(&balancer);
  knapformer_routing_destroy(NULL);
  knapformer_pending_routing_destroy(NULL);
  knapformer_pending_routing_destroy(&pending);
  knapformer_exec_destroy(NULL);
  knapformer_exec_destroy(&exec);
  knapformer_communicator_options_init(NULL);
  knapformer_balancer_options_init(NULL);
}

/* Errors that leave the communicator usable. */
static void test_input(void) {
  const int64_t good[] = {20, 30};
  const int64_t bad[] = {20, -5};
  group it = make_group("elastic", 2);
  knapformer_routing* routing = NULL;
  knapformer_pending_routing* pending = NULL;
  knapformer_balancer* balancer = NULL;
  knapformer_communicator* communicator = NULL;
  knapformer_balancer_options options;
  knapformer_communicator_options patience;
  char blamed[64];
  snprintf(blamed, sizeof blamed, "rank %d: the length of sequence 1 is -5", size - 1);
  check_same_message(
      knapformer_balancer_prepare(it.balancer, 2, is_last() ? bad : good, NULL, &routing),
      KNAPFORMER_INVALID, blamed);
  CHECK(routing == NULL);
  CHECK_OK(
      knapformer_balancer_start_prepare(it.balancer, 2, is_last() ? bad : good, NULL, &pending));
  check_same_message(knapformer_pending_routing_wait(&pending, &routing), KNAPFORMER_INVALID,
                     blamed);
  CHECK(routing == NULL && pending == NULL);
  check_same_message(
      knapformer_balancer_prepare(it.balancer, 2, good, is_last() ? bad : good, &routing),
      KNAPFORMER_INVALID, "the cost of sequence 1 is -5");

  knapformer_balancer_options_init(&options);
  if (is_last()) options.plan.topology = "g4n8x";
  check_same_message(knapformer_balancer_create(it.communicator, &options, &balancer),
                     KNAPFORMER_INVALID, "g4n8x");
  knapformer_balancer_options_init(&options);
  if (is_last()) options.plan.topology = NULL;
  check_same_message(knapformer_balancer_create(it.communicator, &options, &balancer),
                     KNAPFORMER_INVALID, "options.topology is NULL");
  knapformer_balancer_options_init(&options);
  if (is_last()) options.struct_size = 0;
  check_same_message(knapformer_balancer_create(it.communicator, &options, &balancer),
                     KNAPFORMER_INVALID, "knapformer_balancer_options_init");
  knapformer_balancer_options_init(&options);
  options.plan.machine.flops = -1;
  check_same_message(knapformer_balancer_create(it.communicator, &options, &balancer),
                     KNAPFORMER_INVALID, "FLOP/s");
  check_same_message(
      knapformer_balancer_create(it.communicator, NULL, is_last() ? NULL : &balancer),
      KNAPFORMER_INVALID, "knapformer_balancer_create: balancer is NULL");
  knapformer_balancer_options_init(&options);
  options.plan.heads = 1 + is_last();
  if (size > 1) {
    check_same_message(knapformer_balancer_create(it.communicator, &options, &balancer),
                       KNAPFORMER_INVALID, "the options differ between ranks, first in the heads");
  }
  CHECK(balancer == NULL);

  knapformer_communicator_options_init(&patience);
  if (is_last()) patience.transport = 9;
  check_same_message(knapformer_communicator_create(MPI_COMM_WORLD, &patience, &communicator),
                     KNAPFORMER_INVALID, "there is no transport 9");
  knapformer_communicator_options_init(&patience);
  if (is_last()) patience.timeout_seconds = -1;
  check_same_message(knapformer_communicator_create(MPI_COMM_WORLD, &patience, &communicator),
                     KNAPFORMER_INVALID, "timeout_seconds -1");
  check_same_message(
      knapformer_communicator_create(MPI_COMM_WORLD, NULL, is_last() ? NULL : &communicator),
      KNAPFORMER_INVALID, "communicator is NULL");
  CHECK(communicator == NULL);

  CHECK_OK(knapformer_balancer_prepare(it.balancer, 2, good, NULL, &routing));
  knapformer_routing_destroy(&routing);
  destroy_group(&it);
}

/* What the last rank hands over instead of a good buffer, and what is said about it. The movement
 * is another one than the type of rows is for where a sum is wanted. */
typedef struct mistake {
  void (*make)(knapformer_rows* rows);
  int movement;
  const char* text;
} mistake;

static void no_input(knapformer_rows* rows) { rows->from = NULL; }
static void no_output(knapformer_rows* rows) { rows->to = NULL; }
static void fewer_rows(knapformer_rows* rows) { rows->from_rows -= 1; }
static void negative_rows(knapformer_rows* rows) { rows->to_rows = -1; }
static void negative_width(knapformer_rows* rows) { rows->row_bytes = -8; }
static void huge_width(knapformer_rows* rows) { rows->row_bytes = INT64_MAX / 2; }
static void no_type(knapformer_rows* rows) { rows->type = 7; }
static void only_bytes(knapformer_rows* rows) { rows->type = KNAPFORMER_BYTES; }
static void part_of_a_double(knapformer_rows* rows) { rows->row_bytes = 7; }
static void overlapping(knapformer_rows* rows) { rows->to = (char*)rows->to - 1; }

static const mistake kMistakes[] = {
    {no_input, KNAPFORMER_ROUTE, "rows[0].from is NULL, for"},
    {no_output, KNAPFORMER_ROUTE, "rows[0].to is NULL, for"},
    {fewer_rows, KNAPFORMER_ROUTE, "input 0 has 49 rows"},
    {negative_rows, KNAPFORMER_ROUTE, "rows[0].to_rows is -1"},
    {negative_width, KNAPFORMER_ROUTE, "rows[0].row_bytes is -8"},
    {huge_width, KNAPFORMER_ROUTE, "rows[0].row_bytes is 4611686018427387903"},
    {no_type, KNAPFORMER_ROUTE, "rows[0].type is 7"},
    {only_bytes, KNAPFORMER_ROUTE_SEQUENCES_ADJOINT, "neither float, double nor bfloat16"},
    {part_of_a_double, KNAPFORMER_ROUTE_SEQUENCES_ADJOINT, "rows of 7 bytes"},
    {overlapping, KNAPFORMER_ROUTE, "output 0 overlaps input 0"}};

/* Sets `status` to that of a good movement with a mistake on the last rank, and of a barrier. */
static int move_with(const group* it, const knapformer_routing* routing, const mistake* wrong) {
  static double memory[4096];
  knapformer_layout layout;
  int status;
  const int sums = wrong->movement == KNAPFORMER_ROUTE_SEQUENCES_ADJOINT;
  knapformer_rows rows = {memory, NULL, 0, 0, sizeof(double), KNAPFORMER_DOUBLE};
  CHECK_OK(knapformer_routing_get_layout(routing, &layout));
  rows.from_rows = sums ? layout.chunk_count : layout.home_rows;
  rows.to_rows = sums ? layout.home_sequences : layout.routed_rows;
  rows.to = memory + rows.from_rows;
  if (is_last()) wrong->make(&rows);
  status = knapformer_routing_move(routing, wrong->movement, NULL, 1, &rows);
  return status ? status : knapformer_communicator_barrier(it->communicator);
}

/* Errors after which the communicator is of no further use. */
static void test_failures(void) {
  const int64_t lengths[] = {20, 30};
  const size_t count = sizeof kMistakes / sizeof kMistakes[0];
  size_t i;
  for (i = 0; i < count; ++i) {
    group it = make_group("elastic", 1);
    knapformer_routing* routing = NULL;
    CHECK_OK(knapformer_balancer_prepare(it.balancer, 2, lengths, NULL, &routing));
    MPI_Barrier(MPI_COMM_WORLD);
    check_same_message(move_with(&it, routing, &kMistakes[i]), KNAPFORMER_FAILED,
                       kMistakes[i].text);
    check_same_message(knapformer_communicator_barrier(it.communicator), KNAPFORMER_FAILED,
                       kMistakes[i].text);
    knapformer_routing_destroy(&routing);
    destroy_group(&it);
  }
}

/* The last rank does `bad`, the others nothing, and then all meet. */
#define CHECK_ALL_FAIL(bad, text)                                                                  \
  do {                                                                                             \
    group it = make_group("elastic", 1);                                                           \
    knapformer_routing* routing = NULL;                                                            \
    CHECK_OK(knapformer_balancer_prepare(it.balancer, 1, one, NULL, &routing));                    \
    MPI_Barrier(MPI_COMM_WORLD);                                                                   \
    if (is_last()) CHECK((bad) == KNAPFORMER_FAILED);                                              \
    check_same_message(knapformer_communicator_barrier(it.communicator), KNAPFORMER_FAILED, text); \
    knapformer_routing_destroy(&routing);                                                          \
    destroy_group(&it);                                                                            \
  } while (0)

static void test_arguments_that_all_hear_of(void) {
  const int64_t one[] = {8};
  const knapformer_rows rows = {NULL, NULL, 0, 0, 1, KNAPFORMER_BYTES};
  knapformer_request* request = NULL;
  knapformer_routing* other = NULL;
  CHECK_ALL_FAIL(knapformer_balancer_prepare(it.balancer, 3, NULL, NULL, &other),
                 "knapformer_balancer_prepare: lengths is NULL");
  CHECK_ALL_FAIL(knapformer_balancer_prepare(it.balancer, -1, one, NULL, &other),
                 "lengths has -1 entries");
  CHECK_ALL_FAIL(knapformer_balancer_prepare(it.balancer, 1, one, NULL, NULL), "routing is NULL");
  CHECK_ALL_FAIL(knapformer_routing_move(routing, 17, NULL, 1, &rows), "no movement 17");
  CHECK_ALL_FAIL(knapformer_routing_move(routing, KNAPFORMER_ROUTE, NULL, 0, &rows), "0 buffers");
  CHECK_ALL_FAIL(knapformer_routing_move(routing, KNAPFORMER_ROUTE, NULL, 1, NULL), "rows is NULL");
  CHECK_ALL_FAIL(knapformer_routing_start_move(routing, KNAPFORMER_ROUTE, NULL, 1, &rows, NULL),
                 "request is NULL");
  CHECK_ALL_FAIL(knapformer_routing_start_move(routing, -1, NULL, 1, &rows, &request),
                 "no movement -1");
  CHECK(request == NULL && other == NULL);
  CHECK_ALL_FAIL(knapformer_communicator_fail(it.communicator, "the disk is full"),
                 "the disk is full");
  CHECK_ALL_FAIL(knapformer_communicator_fail(it.communicator, NULL), "gave no reason");
  CHECK_ALL_FAIL(knapformer_communicator_split(it.communicator, 1, NULL), "group is NULL");
}

static void test_another_plan(void) {
  const int64_t lengths[] = {20, 30};
  int64_t ranks = size + 1, sequences = 0, r, offsets[66];
  group it = make_group("elastic", 1);
  knapformer_plan* plan = NULL;
  knapformer_routing* routing = NULL;
  for (r = 0; r <= ranks; ++r) offsets[r] = sequences;
  CHECK_OK(knapformer_plan_make(NULL, ranks, offsets, lengths, NULL, &plan));
  CHECK_ERROR(knapformer_routing_create(it.communicator, plan, &routing), KNAPFORMER_INVALID,
              "the plan is for");
  CHECK(routing == NULL);
  knapformer_plan_destroy(&plan);
  destroy_group(&it);
}

void test_errors(void) {
  test_null();
  test_input();
  test_failures();
  test_arguments_that_all_hear_of();
  test_another_plan();
}
