# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds and runs programs against the installation in PREFIX with the flags of its pkg-config files and no CMake, in
# WORK_DIR. Given by tests/install/CMakeLists.txt.

# Compiles `source` with the flags of `package`, and runs it behind the words in ARGN.
function(build_and_run package compiler source)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env "PKG_CONFIG_PATH=${PREFIX}/${LIBDIR}/pkgconfig" ${PKG_CONFIG} --cflags --libs ${package}
    OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  get_filename_component(name "${source}" NAME)
  set(program "${WORK_DIR}/${name}.out")
  execute_process(COMMAND ${compiler} "${source}" -o "${program}" ${flags} "-Wl,-rpath,${PREFIX}/${LIBDIR}"
    COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${ARGN} "${program}" COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(MAKE_DIRECTORY "${WORK_DIR}")
build_and_run(knapformer-plan "${CXX};-std=c++20" "${SOURCE_DIR}/tests/install/planner/main.cpp")
build_and_run(knapformer-plan "${CC}" "${SOURCE_DIR}/tests/install/planner/main.c")
if(RUNTIME)
  build_and_run(knapformer "${CC}" "${SOURCE_DIR}/docs/examples/balance.c" ${RUN_PREFIX})
  build_and_run(knapformer "${CXX};-std=c++20" "${SOURCE_DIR}/tests/install/runtime/main.cpp" ${RUN_PREFIX})
endif()
