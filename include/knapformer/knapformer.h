/* SPDX-FileCopyrightText: The KnapFormer authors
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

/* KnapFormer in C (C99): plans the work of a group of MPI ranks and moves it. See
 * knapformer_plan.h for statuses, ownership and options.
 *
 * Between MPI_Init and MPI_Finalize:
 *
 *     knapformer_initialize();
 *     knapformer_communicator_create(MPI_COMM_WORLD, NULL, &group);
 *     knapformer_balancer_create(group, &options, &balancer);
 *     for each step:
 *       knapformer_balancer_prepare(balancer, sequences, lengths, NULL, &routing);
 *       knapformer_routing_get_layout(routing, &layout);            how much there is to compute
 *       knapformer_routing_move(routing, KNAPFORMER_ROUTE, NULL, 1, &rows);
 *       ... compute ...
 *       knapformer_routing_move(routing, KNAPFORMER_REVERSE_ROUTE, NULL, 1, &rows);
 *       knapformer_routing_destroy(&routing);
 *     knapformer_balancer_destroy(&balancer);
 *     knapformer_communicator_destroy(&group);
 *     knapformer_finalize();
 *
 * Functions called collective are called by all ranks of the communicator in the same order, from
 * one thread at a time. When one rank makes them fail, all ranks return the same status and have
 * the same message; only a NULL communicator, balancer, routing or request, by which nobody can be
 * told, leaves the others waiting for that rank until their time-out. */

#ifndef KNAPFORMER_KNAPFORMER_H
#define KNAPFORMER_KNAPFORMER_H

#include <knapformer/knapformer_plan.h>

#ifdef __cplusplus
#include <knapformer/comm/mpi.hpp>
extern "C" {
#else
#include <mpi.h>
#endif

/* ---- Start and end */

/** Initialises Kokkos unless somebody has. Kokkos reads its settings from the environment
 * (KOKKOS_NUM_THREADS, KOKKOS_DEVICE_ID, ...). May be called several times. */
KNAPFORMER_C_API int knapformer_initialize(void);

/** Once for each knapformer_initialize: the last one finalises Kokkos if that one initialised it.
 * KNAPFORMER_INVALID while communicators, balancers, routings or the like still exist. */
KNAPFORMER_C_API int knapformer_finalize(void);

/* ---- Where device work runs
 *
 * On the default instance of Kokkos's default execution space, where `exec` is NULL; for CUDA and
 * HIP also on a stream of the caller's. Buffers are in memory that this execution space reads:
 * ordinary memory where it is the host, device memory otherwise. */

typedef struct knapformer_exec knapformer_exec;

/** `stream` is a cudaStream_t or hipStream_t, which must outlive the handle. KNAPFORMER_INVALID
 * where Kokkos was built without them. */
KNAPFORMER_C_API int knapformer_exec_create(void* stream, knapformer_exec** exec);
KNAPFORMER_C_API void knapformer_exec_destroy(knapformer_exec** exec);

/** Waits for the work enqueued on `exec`. */
KNAPFORMER_C_API int knapformer_exec_fence(const knapformer_exec* exec);

/* ---- The ranks of a balancing group */

typedef struct knapformer_communicator knapformer_communicator;

enum {
  KNAPFORMER_TRANSPORT_AUTO = 0, /**< NCCL where all ranks can use it, MPI elsewhere */
  KNAPFORMER_TRANSPORT_MPI = 1,
  KNAPFORMER_TRANSPORT_NCCL = 2 /**< KNAPFORMER_INVALID where it cannot be had */
};

/** struct CommunicatorOptions of <knapformer/comm/communicator.hpp>, which says more. */
typedef struct knapformer_communicator_options {
  int64_t struct_size;    /**< set by knapformer_communicator_options_init */
  int64_t transport;      /**< KNAPFORMER_TRANSPORT_AUTO and so on */
  double report_seconds;  /**< waiting without progress is reported to `log` after this (60) */
  double timeout_seconds; /**< and fails after this (600) */
  void (*log)(void* context, const char* text); /**< receives reports; NULL: nobody does */
  void* log_context;                            /**< passed to `log` */
  int64_t message_bytes; /**< of the largest single message; larger ranges travel in parts */
  int64_t direct;        /**< not 0: MPI is given device memory as it is */
  int64_t nccl_peers;    /**< connected when the communicator is made */
} knapformer_communicator_options;

KNAPFORMER_C_API void knapformer_communicator_options_init(
    knapformer_communicator_options* options);

/** Collective over `comm`, which is duplicated. `options` may be NULL. */
KNAPFORMER_C_API int knapformer_communicator_create(MPI_Comm comm,
                                                    const knapformer_communicator_options* options,
                                                    knapformer_communicator** communicator);
/** The same for a communicator of Fortran: `comm` of the module mpi, `comm%MPI_VAL` of mpi_f08. */
KNAPFORMER_C_API int knapformer_communicator_create_f(
    MPI_Fint comm, const knapformer_communicator_options* options,
    knapformer_communicator** communicator);
/** Collective: groups of `group_size` consecutive ranks, which divides the number of ranks. */
KNAPFORMER_C_API int knapformer_communicator_split(const knapformer_communicator* communicator,
                                                   int group_size, knapformer_communicator** group);
/** Collective, once nothing else uses the communicator. */
KNAPFORMER_C_API void knapformer_communicator_destroy(knapformer_communicator** communicator);

/** -1 for NULL. */
KNAPFORMER_C_API int knapformer_communicator_rank(const knapformer_communicator* communicator);
KNAPFORMER_C_API int knapformer_communicator_size(const knapformer_communicator* communicator);

/** Collective: returns when all ranks have called it. A failure of any is known everywhere then. */
KNAPFORMER_C_API int knapformer_communicator_barrier(const knapformer_communicator* communicator);

/** Not collective: this rank cannot go on. All ranks fail with `reason`, in the call that they wait
 * in or make next. Returns KNAPFORMER_FAILED. */
KNAPFORMER_C_API int knapformer_communicator_fail(const knapformer_communicator* communicator,
                                                  const char* reason);

/** What this rank has spent on a communicator so far, in seconds. */
typedef struct knapformer_times {
  double waited;     /**< for ranks or bytes that were not there yet */
  double waited_cpu; /**< the same in CPU time of the waiting thread */
  double hidden;     /**< of operations under way while the rank did something else */
  double hidden_cpu; /**< the same in CPU time of the process */
} knapformer_times;

KNAPFORMER_C_API int knapformer_communicator_get_times(const knapformer_communicator* communicator,
                                                       knapformer_times* times);

/* ---- Plans of steps */

typedef struct knapformer_balancer knapformer_balancer;
typedef struct knapformer_routing knapformer_routing;
typedef struct knapformer_pending_routing knapformer_pending_routing;

/** The same on all ranks. */
typedef struct knapformer_balancer_options {
  int64_t struct_size;          /**< set by knapformer_balancer_options_init */
  knapformer_plan_options plan; /**< what to balance, how, and on which machine */
  int64_t adapt_to_speed; /**< not 0: plan for the speeds that knapformer_balancer_observe shows */
  const double* speed_estimate; /**< where the estimate starts, one for each rank, or NULL */
  int64_t speed_estimate_count; /**< 0 without an estimate */
} knapformer_balancer_options;

KNAPFORMER_C_API void knapformer_balancer_options_init(knapformer_balancer_options* options);

/** Collective. `options` may be NULL. */
KNAPFORMER_C_API int knapformer_balancer_create(const knapformer_communicator* communicator,
                                                const knapformer_balancer_options* options,
                                                knapformer_balancer** balancer);
KNAPFORMER_C_API void knapformer_balancer_destroy(knapformer_balancer** balancer);

/** Collective. `lengths` are the tokens of each of this rank's `sequences` sequences, of which
 * there may be none. `costs` is NULL on every rank, or the work of each sequence in whole numbers.
 * A wrong length or cost leaves the communicator usable. */
KNAPFORMER_C_API int knapformer_balancer_prepare(const knapformer_balancer* balancer,
                                                 int64_t sequences, const int64_t* lengths,
                                                 const int64_t* costs,
                                                 knapformer_routing** routing);

/** Collective: the same, started. Copies the arrays. What is under way overlaps with other work. */
KNAPFORMER_C_API int knapformer_balancer_start_prepare(const knapformer_balancer* balancer,
                                                       int64_t sequences, const int64_t* lengths,
                                                       const int64_t* costs,
                                                       knapformer_pending_routing** pending);
/** Collective: finishes it and sets `*pending` to NULL. */
KNAPFORMER_C_API int knapformer_pending_routing_wait(knapformer_pending_routing** pending,
                                                     knapformer_routing** routing);
/** Abandons it, which all ranks do or none. */
KNAPFORMER_C_API void knapformer_pending_routing_destroy(knapformer_pending_routing** pending);

/** Not collective: this rank was busy for so many seconds, waiting for others not counted, with the
 * work that `routing` gave it. */
KNAPFORMER_C_API int knapformer_balancer_observe(const knapformer_balancer* balancer,
                                                 const knapformer_routing* routing,
                                                 double busy_seconds);
/** How fast each rank is, with a mean of 1, as far as observed: `count` numbers, one a rank. */
KNAPFORMER_C_API int knapformer_balancer_get_speeds(const knapformer_balancer* balancer,
                                                    int64_t count, double* speeds);

/** Not collective: makes a routing of a plan for as many ranks as the communicator has, which must
 * be the same on all ranks. */
KNAPFORMER_C_API int knapformer_routing_create(const knapformer_communicator* communicator,
                                               const knapformer_plan* plan,
                                               knapformer_routing** routing);
/** A routing outlives the balancer that prepared it, and several may be in use. */
KNAPFORMER_C_API void knapformer_routing_destroy(knapformer_routing** routing);

/** The plan, which lives as long as the routing: not to be destroyed. NULL for NULL. */
KNAPFORMER_C_API const knapformer_plan* knapformer_routing_get_plan(
    const knapformer_routing* routing);

/** A chunk that this rank computes: rows first_row ... first_row + chunk.tokens - 1 of its routed
 * buffers. */
typedef struct knapformer_local_chunk {
  int64_t sequence;       /**< index in the plan */
  int64_t first_row;      /**< of the routed rows */
  knapformer_chunk chunk; /**< as the plan has it */
} knapformer_local_chunk;

/** A sequence as this rank's attention sees it, all tokens and some heads: token t, local head h is
 * row `offset + t * heads + h` of a head buffer. */
typedef struct knapformer_attention_problem {
  int64_t offset;     /**< first head row */
  int64_t length;     /**< tokens of the whole sequence */
  int64_t heads;      /**< computed here */
  int64_t first_head; /**< of those, among all of the model */
  int64_t sequence;   /**< index in the plan */
} knapformer_attention_problem;

/** What this rank has. Home rows are the tokens of its own sequences as it loaded them, one
 * sequence after another; routed rows are those of the chunks that it computes. */
typedef struct knapformer_layout {
  int64_t home_rows;                            /**< tokens of its own sequences */
  int64_t routed_rows;                          /**< tokens that it computes */
  int64_t head_rows;                            /**< of a head buffer */
  int64_t home_sequences;                       /**< those without tokens too */
  int64_t chunk_count;                          /**< of `chunks` */
  const knapformer_local_chunk* chunks;         /**< in the order of the routed rows */
  int64_t problem_count;                        /**< of `problems` */
  const knapformer_attention_problem* problems; /**< unsplit sequences first */
  int64_t unsplit_head_rows;      /**< the first ones: sequences that this rank has for itself */
  int64_t rows_sent;              /**< to other ranks by KNAPFORMER_ROUTE */
  int64_t rows_returned;          /**< and by KNAPFORMER_REVERSE_ROUTE */
  int64_t head_rows_sent;         /**< by KNAPFORMER_PRE_ATTENTION */
  int64_t head_rows_returned;     /**< by KNAPFORMER_POST_ATTENTION */
  int64_t sequence_rows_sent;     /**< by KNAPFORMER_ROUTE_SEQUENCES */
  int64_t sequence_rows_returned; /**< by KNAPFORMER_ROUTE_SEQUENCES_ADJOINT */
} knapformer_layout;

KNAPFORMER_C_API int knapformer_routing_get_layout(const knapformer_routing* routing,
                                                   knapformer_layout* layout);

/* ---- Moving rows */

enum {
  KNAPFORMER_ROUTE = 0,         /**< home rows to routed rows */
  KNAPFORMER_REVERSE_ROUTE = 1, /**< and back */
  /** Routed rows of all heads to head rows. A row of `row_bytes` is one head of one token, so that
   * a buffer of tokens has routed_rows * heads of them: its `rows` still count tokens. */
  KNAPFORMER_PRE_ATTENTION = 2,
  KNAPFORMER_POST_ATTENTION = 3,  /**< and back */
  KNAPFORMER_ROUTE_SEQUENCES = 4, /**< a row for each home sequence to a row for each chunk */
  /** A row for each chunk to a row for each home sequence: sums those of a sequence, in the same
   * order on every run; zeros for a sequence without tokens. For types that have sums. */
  KNAPFORMER_ROUTE_SEQUENCES_ADJOINT = 5,

  /* The others permute rows, so their adjoint is the way back. */
  KNAPFORMER_ROUTE_ADJOINT = KNAPFORMER_REVERSE_ROUTE,
  KNAPFORMER_REVERSE_ROUTE_ADJOINT = KNAPFORMER_ROUTE,
  KNAPFORMER_PRE_ATTENTION_ADJOINT = KNAPFORMER_POST_ATTENTION,
  KNAPFORMER_POST_ATTENTION_ADJOINT = KNAPFORMER_PRE_ATTENTION
};

enum {
  KNAPFORMER_BYTES = 0, /**< anything: moved, never summed */
  KNAPFORMER_FLOAT = 1,
  KNAPFORMER_DOUBLE = 2
};

/** Rows to move: one after another, `from_rows` of them at `from`, to `to_rows` at `to`. How many
 * there must be is in knapformer_layout. Widths and types are the same on all ranks. */
typedef struct knapformer_rows {
  const void* from;  /**< NULL where there are no bytes, as `to` */
  void* to;          /**< written */
  int64_t from_rows; /**< as the layout says */
  int64_t to_rows;   /**< as the layout says */
  int64_t row_bytes; /**< of one row */
  int64_t type;      /**< of the elements, for sums */
} knapformer_rows;

/** Collective. Moves the rows of `count` buffers in one exchange. Work on `to` that is enqueued on
 * `exec` afterwards finds them. A wrong buffer makes the communicator fail. */
KNAPFORMER_C_API int knapformer_routing_move(const knapformer_routing* routing, int movement,
                                             const knapformer_exec* exec, int64_t count,
                                             const knapformer_rows* rows);

typedef struct knapformer_request knapformer_request;

/** Collective: the same, started. The buffers must stay until it is waited for, and after an error
 * until MPI_Abort. */
KNAPFORMER_C_API int knapformer_routing_start_move(const knapformer_routing* routing, int movement,
                                                   const knapformer_exec* exec, int64_t count,
                                                   const knapformer_rows* rows,
                                                   knapformer_request** request);
/** Waits for it and sets `*request` to NULL. */
KNAPFORMER_C_API int knapformer_request_wait(knapformer_request** request);

#ifdef __cplusplus
}
#endif

#endif
