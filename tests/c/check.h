/* SPDX-FileCopyrightText: The KnapFormer authors
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

/* What the tests in C check with: failures are printed and counted. */

#ifndef KNAPFORMER_TESTS_C_CHECK_H
#define KNAPFORMER_TESTS_C_CHECK_H

#include <knapformer/knapformer_plan.h>
#include <stdio.h>
#include <string.h>

extern int failures;

#define CHECK(condition)                                                                   \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "%s:%d: %s; the last message: %s\n", __FILE__, __LINE__, #condition, \
              knapformer_error_message());                                                 \
      ++failures;                                                                          \
    }                                                                                      \
  } while (0)

#define CHECK_OK(call) CHECK((call) == KNAPFORMER_SUCCESS)

/* The call returns `status` and says `text`, among other things. */
#define CHECK_ERROR(call, status, text) \
  CHECK((call) == (status) && strstr(knapformer_error_message(), text) != NULL)

#endif
