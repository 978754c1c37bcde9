# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# cmake -DFILE=tests.xml -P count-tests.cmake: says how many tests a run of ctest --output-junit ran,
# and fails when that is none.

set(tests 0)
if(EXISTS "${FILE}")
  file(READ "${FILE}" report)
endif()
foreach(what tests failures disabled skipped)
  set(${what} 0)
  if("${report}" MATCHES "<testsuite[^>]*[ \t\n]${what}=\"([0-9]+)\"")
    set(${what} ${CMAKE_MATCH_1})
  endif()
endforeach()
math(EXPR ran "${tests} - ${disabled} - ${skipped}")
set(text "== ${ran} tests ran, ${failures} of them failed")
if(NOT ran EQUAL tests)
  math(EXPR not_run "${tests} - ${ran}")
  string(APPEND text "; ${not_run} did not run")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${text}")
if(ran LESS 1)
  message(FATAL_ERROR "no test ran")
endif()
