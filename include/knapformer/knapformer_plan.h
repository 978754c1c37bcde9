/* SPDX-FileCopyrightText: The KnapFormer authors
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

/* The planner in C (C99), for programs without Kokkos and MPI: part of KnapFormer::plan. What moves
 * tokens between ranks is in knapformer.h, which includes this.
 *
 * Functions that return a status return KNAPFORMER_SUCCESS, or say in knapformer_error_message()
 * what was wrong. None lets a C++ exception out. What a _create or _make function returns is
 * destroyed by the function of that name, which sets the pointer to NULL and takes NULL too. Arrays
 * that a function fills a struct with belong to the handle that they come from; empty ones may be
 * NULL.
 *
 * An options struct is filled by its _init function first; then set what should be otherwise. */

#ifndef KNAPFORMER_KNAPFORMER_PLAN_H
#define KNAPFORMER_KNAPFORMER_PLAN_H

#include <stdint.h>

#ifdef __GNUC__
#define KNAPFORMER_C_API __attribute__((visibility("default")))
#else
#define KNAPFORMER_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum {
  KNAPFORMER_SUCCESS = 0,
  /** An argument was wrong, on this rank or, in collective functions, on any. Nothing has happened;
   * everything stays usable. */
  KNAPFORMER_INVALID = 1,
  /** The communicator has failed, on all ranks: print the message and call MPI_Abort. */
  KNAPFORMER_FAILED = 2,
  KNAPFORMER_OUT_OF_MEMORY = 3,
  KNAPFORMER_INTERNAL = 4 /**< a defect of the library */
};

/** What was wrong when a function last failed in the calling thread, of at most 4095 bytes; empty
 * when none has. Valid until one fails again. */
KNAPFORMER_C_API const char* knapformer_error_message(void);

/** Such as "0.1.0". */
KNAPFORMER_C_API const char* knapformer_version(void);

/** No limit on the tokens of a rank. */
#define KNAPFORMER_NO_CAP INT64_MAX
/** Search as long as the library thinks right. */
#define KNAPFORMER_DEFAULT_BUDGET INT64_C(-1)

/** What times are predicted for: struct Machine of <knapformer/plan/machine.hpp>. */
typedef struct knapformer_machine {
  int64_t ranks_per_node;  /**< consecutive ranks */
  double flops;            /**< of a rank of speed 1, per second */
  double bandwidth_within; /**< bytes per second of a rank, to ranks of its node; may be infinite */
  double bandwidth_between;  /**< to ranks of other nodes; may be infinite */
  double latency;            /**< seconds per peer and exchange */
  int64_t layers;            /**< of the model */
  int64_t bytes_per_element; /**< of the rows that travel */
  const double* speeds; /**< relative, one for each rank; NULL: all 1. Read during calls only */
  int64_t speed_count;  /**< 0 without speeds */
} knapformer_machine;

/** How to plan. The same on all ranks. */
typedef struct knapformer_plan_options {
  int64_t struct_size; /**< set by knapformer_plan_options_init */
  /** Which bags of ranks compute sequences together: "g1n4+g4n1" is four bags of one rank and one
   * bag of four; "elastic" (the default) forms a bag for every sequence, "elastic<n>" of at most n
   * ranks. Read during calls only. */
  const char* topology;
  /** A sequence of L tokens costs `constant + 6 d_model L + gamma L^2`, unless costs are given. */
  int64_t d_model;
  double gamma;     /**< weight of attention */
  int64_t constant; /**< of every sequence */
  int64_t heads;    /**< attention heads of the model, those of keys where queries share them (1):
                         no bag splits a sequence further */
  int64_t balance;  /**< 0: everything stays home */
  knapformer_machine machine;            /**< what times are predicted for */
  int64_t max_tokens_per_rank;           /**< KNAPFORMER_NO_CAP */
  int64_t max_attention_tokens_per_rank; /**< KNAPFORMER_NO_CAP */
  int64_t budget; /**< changes tried in search of a better plan; KNAPFORMER_DEFAULT_BUDGET */
} knapformer_plan_options;

KNAPFORMER_C_API void knapformer_plan_options_init(knapformer_plan_options* options);

/** For every sequence its home, bag, token ranges and head ranges. Immutable. */
typedef struct knapformer_plan knapformer_plan;

/** Plans sequences of known lengths: those of rank r are lengths[offsets[r]] ...
 * lengths[offsets[r + 1] - 1]; `offsets` has ranks + 1 entries, the first of them 0. `costs` is
 * NULL, or the work of every sequence in whole numbers, which then replaces the cost model, and
 * communication counts as free. Equal input makes an equal plan on every machine. `options` may be
 * NULL. */
KNAPFORMER_C_API int knapformer_plan_make(const knapformer_plan_options* options, int64_t ranks,
                                          const int64_t* offsets, const int64_t* lengths,
                                          const int64_t* costs, knapformer_plan** plan);
KNAPFORMER_C_API void knapformer_plan_destroy(knapformer_plan** plan);

/** One rank's share of one sequence. */
typedef struct knapformer_chunk {
  int64_t rank;        /**< that computes it */
  int64_t first_token; /**< within the sequence */
  int64_t tokens;      /**< at least 1 */
  int64_t first_head;  /**< of the model */
  int64_t heads;       /**< at least 1 */
} knapformer_chunk;

/** Sequences are ordered by home rank, then by position there. Sequence i has the chunks
 * chunks[chunk_offsets[i]] ... chunks[chunk_offsets[i + 1] - 1]; none without tokens. */
typedef struct knapformer_plan_arrays {
  int64_t ranks;                  /**< of the group */
  int64_t heads;                  /**< of the model */
  int64_t sequences;              /**< of all ranks */
  int64_t chunk_count;            /**< of all sequences */
  const int64_t* homes;           /**< [sequences] */
  const int64_t* lengths;         /**< [sequences] */
  const int64_t* chunk_offsets;   /**< [sequences + 1] */
  const knapformer_chunk* chunks; /**< [chunk_count], sequence after sequence */
  uint64_t hash;                  /**< of all of the above; equal on every rank */
} knapformer_plan_arrays;

KNAPFORMER_C_API int knapformer_plan_get_arrays(const knapformer_plan* plan,
                                                knapformer_plan_arrays* arrays);

/** What a plan does to the group. Work is in units of the cost model, or of the costs given; the
 * load of a rank is its work over its speed. Ratios of an empty group are 1. */
typedef struct knapformer_plan_report {
  int64_t ranks;                  /**< of the group */
  const double* work_before;      /**< [ranks], as are all arrays here */
  const double* work_after;       /**< the same as planned */
  const int64_t* tokens_before;   /**< loaded */
  const int64_t* tokens_after;    /**< as planned */
  const double* attention_tokens; /**< length times the share of heads a rank computes, summed */
  const double* seconds;          /**< predicted time of a step */
  double max_over_mean_before;    /**< of the loads if everything stays home */
  double max_over_mean;           /**< as planned */
  double max_over_min_before;     /**< infinite when a rank has no work and another has */
  double max_over_min;            /**< as planned */
  double lower_bound;     /**< no plan of this topology has a smaller largest load; 0 if unknown */
  double lower_bound_gap; /**< largest load / lower_bound - 1 */
  double elastic_lower_bound;     /**< no plan at all has a smaller largest load; 0 if unknown */
  double elastic_lower_bound_gap; /**< largest load / elastic_lower_bound - 1 */
  int64_t total_tokens;           /**< of all sequences */
  int64_t moved_tokens;           /**< computed on another rank than their home */
  int64_t crossed_tokens;         /**< computed on another node than their home */
  double ulysses_tokens;          /**< whole rows of q, k, v and o that travel, over 4 */
  double ulysses_bytes_per_layer; /**< of one forward pass */
  double step_seconds_before;     /**< of the slowest rank if everything stays home */
  double step_seconds;            /**< of the slowest rank */
  double ideal_seconds;           /**< work spread in proportion to speed, no communication */
  double step_over_ideal;         /**< step_seconds / ideal_seconds */
  double plan_seconds;            /**< time to make the plan; differs between ranks */
} knapformer_plan_report;

KNAPFORMER_C_API int knapformer_plan_get_report(const knapformer_plan* plan,
                                                knapformer_plan_report* report);

#ifdef __cplusplus
}
#endif

#endif
