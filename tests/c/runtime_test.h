/* SPDX-FileCopyrightText: The KnapFormer authors
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#ifndef KNAPFORMER_TESTS_C_RUNTIME_TEST_H
#define KNAPFORMER_TESTS_C_RUNTIME_TEST_H

#include <knapformer/knapformer.h>

#include "check.h"

extern int rank, size; /* in MPI_COMM_WORLD */

/* A communicator of all ranks, and a balancer on it. All ranks have come, and none waits long. */
typedef struct group {
  knapformer_communicator* communicator;
  knapformer_balancer* balancer;
} group;
group make_group(const char* topology, int64_t heads);
void destroy_group(group* it);

/* Rank r has r sequences, the longest of 40 + 10 r tokens, one without any. */
enum { kMostSequences = 16 };
int64_t fill_lengths(int64_t* lengths);

void test_movements(void);
void test_errors(void);

#endif
