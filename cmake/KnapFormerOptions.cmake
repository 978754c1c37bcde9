# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

option(KNAPFORMER_ENABLE_RUNTIME "Build the library on Kokkos and MPI and the program; off: the planner alone" ON)
option(KNAPFORMER_ENABLE_TESTS "Build the tests (needs GoogleTest)" ${PROJECT_IS_TOP_LEVEL})
option(KNAPFORMER_ENABLE_FORTRAN "Build the Fortran module `knapformer` (needs a compiler of Fortran 2018)" OFF)
option(KNAPFORMER_ENABLE_NCCL "Move tokens between CUDA devices with NCCL; needs a Kokkos with CUDA" OFF)
set(KNAPFORMER_ENABLE_ONEDNN AUTO CACHE STRING
  "Multiply bfloat16 matrices on the host with oneDNN: ON, OFF, or AUTO, where a fitting one is found")
set_property(CACHE KNAPFORMER_ENABLE_ONEDNN PROPERTY STRINGS AUTO ON OFF)
string(TOUPPER "${KNAPFORMER_ENABLE_ONEDNN}" knapformer_enable_onednn)
if(NOT knapformer_enable_onednn MATCHES "^(AUTO|ON|OFF|TRUE|FALSE|YES|NO|1|0)$")
  message(FATAL_ERROR "KNAPFORMER_ENABLE_ONEDNN is '${KNAPFORMER_ENABLE_ONEDNN}': set it to ON, OFF or AUTO")
endif()
option(KNAPFORMER_ENABLE_CUDA_CHECK "Compile every device source with nvcc, without running it (target cuda-check)" OFF)
option(BUILD_SHARED_LIBS "Build shared libraries" OFF)
set(KNAPFORMER_SANITIZE "" CACHE STRING "Sanitizers to build with, e.g. address,undefined or thread")
set(KNAPFORMER_PROGRAM_FLAGS "" CACHE STRING
  "Compiler options of the program and of tests under MPI, not of the library, e.g. -O0 to build sooner")

# Benchmarks are an extra: where Google Benchmark is missing, nobody who did not ask for them is stopped.
set(knapformer_perf_default OFF)
if(PROJECT_IS_TOP_LEVEL AND NOT KNAPFORMER_SANITIZE AND NOT DEFINED KNAPFORMER_ENABLE_PERF)
  find_package(benchmark QUIET)
  set(knapformer_perf_default ${benchmark_FOUND})
endif()
option(KNAPFORMER_ENABLE_PERF "Build the benchmarks; on where Google Benchmark is found" ${knapformer_perf_default})

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()

# Warnings are for us: they are never exported to consumers.
function(knapformer_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion>
    $<$<COMPILE_LANG_AND_ID:Fortran,GNU>:-Wall -std=f2018>)
endfunction()

# Sanitizers reach the test programs too, through the build interface only.
function(knapformer_sanitize target)
  if(KNAPFORMER_SANITIZE)
    target_compile_options(${target} PUBLIC
      $<BUILD_INTERFACE:-fsanitize=${KNAPFORMER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
    # Several sources at once: most of the time goes into what they all include.
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6
      UNITY_BUILD_CODE_AFTER_INCLUDE "#undef KNAPFORMER_INSTANTIATE")
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # it takes each of them for a header
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
    # GCC says that ThreadSanitizer takes no notice of Kokkos's fences. Nothing relies on them but its locks.
    if(KNAPFORMER_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PUBLIC $<BUILD_INTERFACE:-Wno-tsan>)
    endif()
    target_link_options(${target} PUBLIC $<BUILD_INTERFACE:-fsanitize=${KNAPFORMER_SANITIZE}>)
  endif()
endfunction()

# What every library target of this project shares. `name` is its name in the package.
function(knapformer_library target name)
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name} VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  knapformer_warnings(${target})
  knapformer_sanitize(${target})
endfunction()

# Hides what is not of this project in a shared library. Objects are the same for static and shared ones.
function(knapformer_hide_symbols target)
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "")
  if(NOT APPLE)
    set(symbols "${PROJECT_SOURCE_DIR}/cmake/exported-symbols.map")
    target_link_options(${target} PRIVATE "LINKER:--version-script=${symbols}")
    set_property(TARGET ${target} PROPERTY LINK_DEPENDS "${symbols}")
  endif()
endfunction()

# Sources of the target `knapformer` that never run on a device: the CUDA compile check leaves them out.
function(knapformer_host_only)
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set_source_files_properties(${ARGN} TARGET_DIRECTORY knapformer PROPERTIES KNAPFORMER_HOST_ONLY ON)
endfunction()
