# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The target `cuda-check` compiles every source with device code for an NVIDIA GPU, against a Kokkos
# that was built without CUDA but ships the headers of that backend, as Debian's does. The objects are
# never linked and never run: they show that the code compiles.
#
# A Kokkos header that says which backends are enabled is overlaid with one that adds CUDA to them.
# Sources that only ever run on the host are left out by knapformer_host_only(). The NCCL transport is
# compiled too, wherever there is an nccl.h.

# Sets `result` to why the check cannot be made here, or to nothing.
function(knapformer_cuda_check_obstacle result)
  set(${result} "" PARENT_SCOPE)
  find_program(KNAPFORMER_NVCC NAMES nvcc HINTS ENV CUDACXX ENV CUDA_HOME PATH_SUFFIXES bin
    DOC "The CUDA compiler, for the target cuda-check")
  get_target_property(include_dirs Kokkos::kokkos INTERFACE_INCLUDE_DIRECTORIES)
  find_path(KNAPFORMER_KOKKOS_INCLUDE_DIR KokkosCore_config.h PATHS ${include_dirs} NO_DEFAULT_PATH)
  mark_as_advanced(KNAPFORMER_NVCC KNAPFORMER_KOKKOS_INCLUDE_DIR)
  if(Kokkos_ENABLE_CUDA)
    set(${result} "Kokkos is built with CUDA, so the ordinary build compiles the device code" PARENT_SCOPE)
  elseif(NOT KNAPFORMER_NVCC)
    set(${result} "there is no nvcc" PARENT_SCOPE)
  elseif(NOT EXISTS "${KNAPFORMER_KOKKOS_INCLUDE_DIR}/setup/Kokkos_Setup_Cuda.hpp")
    set(${result} "Kokkos comes without the headers of its CUDA backend" PARENT_SCOPE)
  endif()
endfunction()

# Writes into `folder` the headers that are included in place of Kokkos's own.
function(knapformer_write_cuda_overlay folder)
  # `installed`: the header of this name that Kokkos was installed with. `more`: what follows it.
  function(overlay name guard more)
    file(CONFIGURE OUTPUT "${folder}/${name}" @ONLY CONTENT
"// Kokkos's own header, with CUDA added. Made when configuring.
#ifndef @guard@
#define @guard@
#include \"@KNAPFORMER_KOKKOS_INCLUDE_DIR@/@name@\"
@more@
#endif
")
  endfunction()
  overlay(KokkosCore_config.h KNAPFORMER_CUDA_CHECK_CONFIG
"#define KOKKOS_ENABLE_CUDA
#define KOKKOS_ARCH_HOPPER
#define KOKKOS_ARCH_HOPPER90
#if KOKKOS_VERSION < 50000
#define KOKKOS_ENABLE_CUDA_LAMBDA
#endif")
  overlay(KokkosCore_Config_FwdBackend.hpp KNAPFORMER_CUDA_CHECK_FWD "#include <fwd/Kokkos_Fwd_CUDA.hpp>")
  overlay(KokkosCore_Config_DeclareBackend.hpp KNAPFORMER_CUDA_CHECK_DECLARE
    "#include <decl/Kokkos_Declare_CUDA.hpp>")
  overlay(KokkosCore_Config_SetupBackend.hpp KNAPFORMER_CUDA_CHECK_SETUP
    "#include <setup/Kokkos_Setup_Cuda.hpp>")
  overlay(desul/atomics/Config.hpp KNAPFORMER_CUDA_CHECK_DESUL "#define DESUL_ATOMICS_ENABLE_CUDA")
endfunction()

# Sets `result` to .cu files that include every source that may hold device code, because the language of a
# source could only be changed for the library as well. Some sources of a layer share a file: most of the
# time goes into Kokkos's headers. So within a layer, names in unnamed namespaces are unique.
function(knapformer_device_sources result count)
  set(sources_in_a_wrapper 6)
  set(wrappers)
  get_target_property(sources knapformer SOURCES)
  if(NCCL_INCLUDE_DIR)
    get_target_property(nccl_sources knapformer KNAPFORMER_NCCL_SOURCES)
    list(APPEND sources ${nccl_sources})
  endif()
  set(device_sources)
  foreach(source IN LISTS sources)
    get_filename_component(source "${source}" ABSOLUTE BASE_DIR "${PROJECT_SOURCE_DIR}")
    file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}/src" "${source}")
    get_source_file_property(host_only "${source}" TARGET_DIRECTORY knapformer KNAPFORMER_HOST_ONLY)
    if(NOT host_only AND name MATCHES "^(c|comm|route|kernels|model|train)/.*\\.cpp$")
      list(APPEND device_sources "${name}")
    endif()
  endforeach()
  list(LENGTH device_sources number)
  foreach(layer c comm route kernels model train)
    set(of_layer ${device_sources})
    list(FILTER of_layer INCLUDE REGEX "^${layer}/")
    set(index 1)
    while(of_layer)
      list(SUBLIST of_layer 0 ${sources_in_a_wrapper} chosen)
      list(REMOVE_ITEM of_layer ${chosen})
      list(TRANSFORM chosen REPLACE "(.+)" "#include \"${PROJECT_SOURCE_DIR}/src/\\1\"\n#undef KNAPFORMER_INSTANTIATE\n")
      list(JOIN chosen "" content)
      set(wrapper "${PROJECT_BINARY_DIR}/cuda-check/${layer}${index}.cu")
      file(CONFIGURE OUTPUT "${wrapper}" CONTENT "${content}" @ONLY)
      list(APPEND wrappers "${wrapper}")
      math(EXPR index "${index} + 1")
    endwhile()
  endforeach()
  set(${result} "${wrappers}" PARENT_SCOPE)
  set(${count} "${number}" PARENT_SCOPE)
endfunction()

knapformer_cuda_check_obstacle(obstacle)
if(obstacle)
  message(STATUS "CUDA compile check: left out, ${obstacle}")
  add_custom_target(cuda-check
    COMMAND ${CMAKE_COMMAND} -E echo "The device code was not compiled with nvcc: ${obstacle}" VERBATIM)
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "${KNAPFORMER_NVCC}")
endif()
set(CMAKE_CUDA_ARCHITECTURES 90-real)
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
  message(FATAL_ERROR "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is older than 12.4, which the device code needs: "
    "name a newer one with -DKNAPFORMER_NVCC=..., or set KNAPFORMER_ENABLE_CUDA_CHECK=OFF")
endif()

find_path(NCCL_INCLUDE_DIR nccl.h HINTS ENV NCCL_HOME PATHS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}
  PATH_SUFFIXES include)
mark_as_advanced(NCCL_INCLUDE_DIR)
if(NOT NCCL_INCLUDE_DIR)
  message(STATUS "CUDA compile check: the NCCL transport is left out, there is no nccl.h")
endif()

set(overlay "${PROJECT_BINARY_DIR}/cuda-check/include")
knapformer_write_cuda_overlay("${overlay}")
knapformer_device_sources(device_sources count)
add_library(knapformer_cuda_check OBJECT EXCLUDE_FROM_ALL ${device_sources})
set_target_properties(knapformer_cuda_check PROPERTIES LINKER_LANGUAGE CUDA)
target_include_directories(knapformer_cuda_check
  BEFORE PRIVATE "${overlay}" "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
# Half of fmt 9 is constexpr under nvcc, and half is not; make it all of it.
target_compile_definitions(knapformer_cuda_check PRIVATE FMT_USE_CONSTEXPR=1)
target_compile_options(knapformer_cuda_check
  PRIVATE -std=c++20 --extended-lambda --expt-relaxed-constexpr -Xcompiler=-fopenmp -Werror=all-warnings)
if(NCCL_INCLUDE_DIR)
  target_include_directories(knapformer_cuda_check SYSTEM PRIVATE "${NCCL_INCLUDE_DIR}")
endif()
target_link_libraries(knapformer_cuda_check PRIVATE $<TARGET_PROPERTY:knapformer,LINK_LIBRARIES>)

message(STATUS "CUDA compile check: ${count} sources, ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}")
add_custom_target(cuda-check DEPENDS knapformer_cuda_check
  COMMAND ${CMAKE_COMMAND} -E echo "${count} sources compile for CUDA; nothing of them was run" VERBATIM)
