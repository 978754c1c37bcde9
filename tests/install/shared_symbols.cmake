# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The shared libraries in LIBRARIES show names of this project alone, and are named by the version SOVERSION.

# As C++ compilers but Microsoft's write knapformer::, and GNU's and LLVM's what is in a Fortran module.
set(ours_regex "^(_Z(GV|T.|Z)*NK?10knapformer|knapformer_|__knapformer_|_QMknapformer)")
foreach(library IN LISTS LIBRARIES)
  execute_process(COMMAND ${NM} -D --defined-only "${library}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^ \n]+\n" symbols "${symbols}")
  set(ours ${symbols})
  list(FILTER ours INCLUDE REGEX "${ours_regex}")
  list(FILTER symbols EXCLUDE REGEX "${ours_regex}")
  list(LENGTH ours count)
  if(count LESS 10 OR symbols)
    message(FATAL_ERROR "${library} shows ${count} names of ours, and these:\n${symbols}")
  endif()
  execute_process(COMMAND ${READELF} -d "${library}" OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  if(NOT dynamic MATCHES "SONAME[^\n]*\\.so\\.${SOVERSION}\\]")
    message(FATAL_ERROR "the soname of ${library} does not end with .so.${SOVERSION}:\n${dynamic}")
  endif()
  message(STATUS "${library}: ${count} names")
endforeach()
