# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Installs the build in BUILD_DIR, moves the installation elsewhere, and configures, builds and runs the
# projects beside this file against it, in WORK_DIR. Given by tests/install/CMakeLists.txt.

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${ARGN}")
  endif()
endfunction()

# Configures the project `name` in a fresh folder; the arguments behind it go to CMake.
function(configure name folder)
  run(${CMAKE_COMMAND} -S "${WORK_DIR}/projects/${name}" -B "${WORK_DIR}/${folder}" ${CONFIGURE_ARGS} ${ARGN})
endfunction()

# Builds, as a project `name`, the block of CMake code in `guide` that has the text `sign`, with the program `source`,
# and runs it.
function(build_as_in guide sign source name)
  file(READ "${SOURCE_DIR}/${guide}" text)
  string(REGEX MATCHALL "```cmake\n[^`]*" blocks "${text}")
  list(FILTER blocks INCLUDE REGEX "${sign}")
  list(LENGTH blocks count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "${count} blocks of ${guide} have ${sign}")
  endif()
  string(REPLACE "```cmake\n" "" code "${blocks}")
  if(NOT code MATCHES "project\\(")
    string(PREPEND code "project(my_code LANGUAGES C CXX)\n")
  endif()
  string(REPLACE "\ntarget_" "\nadd_executable(my_code \"${SOURCE_DIR}/${source}\")\ntarget_" code "${code}")
  file(WRITE "${WORK_DIR}/projects/${name}/CMakeLists.txt" "cmake_minimum_required(VERSION 3.21)\n${code}")
  configure(${name} ${name} -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix)
  run(${CMAKE_COMMAND} --build "${WORK_DIR}/${name}")
  run(${RUN_PREFIX} "${WORK_DIR}/${name}/my_code")
endfunction()

file(REMOVE_RECURSE "${WORK_DIR}")
file(COPY "${CMAKE_CURRENT_LIST_DIR}/planner" "${CMAKE_CURRENT_LIST_DIR}/runtime" "${SOURCE_DIR}/docs/examples"
  DESTINATION "${WORK_DIR}/projects")
run(${CMAKE_COMMAND} --install "${BUILD_DIR}" --prefix "${WORK_DIR}/before")
file(RENAME "${WORK_DIR}/before" "${WORK_DIR}/prefix")
file(GLOB_RECURSE package "${WORK_DIR}/prefix/*.cmake" "${WORK_DIR}/prefix/*.pc")
foreach(file IN LISTS package)
  file(READ "${file}" text)
  foreach(path "${SOURCE_DIR}" "${WORK_DIR}")
    string(FIND "${text}" "${path}/" position)
    if(NOT position EQUAL -1)
      message(FATAL_ERROR "${file} names ${path}, which its users need not have")
    endif()
  endforeach()
endforeach()

configure(planner planner -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix)
run(${CMAKE_COMMAND} --build "${WORK_DIR}/planner")
run("${WORK_DIR}/planner/user")
run("${WORK_DIR}/planner/user_c")
configure(planner planner-subdirectory -DKNAPFORMER_SOURCE_DIR=${SOURCE_DIR})
run(${CMAKE_COMMAND} --build "${WORK_DIR}/planner-subdirectory")
run("${WORK_DIR}/planner-subdirectory/user")

# What is not there is named.
file(WRITE "${WORK_DIR}/projects/nonsense/CMakeLists.txt" "cmake_minimum_required(VERSION 3.21)
project(nonsense LANGUAGES CXX)
find_package(KnapFormer REQUIRED COMPONENTS plan nonsense)
")
execute_process(COMMAND ${CMAKE_COMMAND} -S "${WORK_DIR}/projects/nonsense" -B "${WORK_DIR}/nonsense" ${CONFIGURE_ARGS}
  -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix ERROR_VARIABLE complaint OUTPUT_QUIET)
if(NOT complaint MATCHES "no component `nonsense` here")
  message(FATAL_ERROR "a component that is not there: ${complaint}")
endif()

if(RUNTIME)
  run("${WORK_DIR}/prefix/bin/knapformer" --help)
  build_as_in(README.md find_package tests/install/runtime/main.cpp cxx_user)
  build_as_in(docs/user-guide.md "C CXX\\)" docs/examples/balance.c c_user)
  if(FORTRAN)
    build_as_in(docs/user-guide.md "CXX Fortran\\)" docs/examples/balance.f90 fortran_user)
  endif()
  # Other tests build and run the examples; the one in C shows that they find the package.
  configure(examples examples -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix)
  run(${CMAKE_COMMAND} --build "${WORK_DIR}/examples" --target balance_c)
  # Building everything once more would take minutes; missing targets already show here.
  configure(runtime runtime-subdirectory -DKNAPFORMER_SOURCE_DIR=${SOURCE_DIR} -DKokkos_DIR=${KOKKOS_DIR})
endif()
