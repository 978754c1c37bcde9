# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the runtime library needs. The planner (KnapFormer::plan) needs none of it.

# A project that adds this one as a subdirectory sees the targets found here (CMake 3.24).
if(NOT PROJECT_IS_TOP_LEVEL)
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
endif()

find_package(Kokkos 4.5 REQUIRED)
if(KNAPFORMER_SANITIZE MATCHES thread AND Kokkos_ENABLE_OPENMP)
  message(WARNING "ThreadSanitizer does not see how libgomp's threads wait for each other and reports races that are "
    "none; set Kokkos_ROOT to a Kokkos with the Serial backend alone")
endif()
find_package(MPI 3.1 REQUIRED COMPONENTS C CXX)
find_package(HDF5 1.10 REQUIRED COMPONENTS C)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
if(Kokkos_ENABLE_CUDA)
  find_package(CUDAToolkit 12.4 REQUIRED)
endif()
if(KNAPFORMER_ENABLE_NCCL)
  if(NOT Kokkos_ENABLE_CUDA)
    message(FATAL_ERROR "KNAPFORMER_ENABLE_NCCL needs a Kokkos that is built with CUDA, and ${Kokkos_DIR} is not: "
      "name another one with Kokkos_ROOT, or leave NCCL out")
  endif()
  find_package(NCCL 2.19 REQUIRED)
endif()

# oneDNN must share our threads: OpenMP's. ThreadSanitizer does not see those wait for each other.
if(knapformer_enable_onednn STREQUAL "AUTO")
  if(NOT Kokkos_ENABLE_CUDA AND NOT KNAPFORMER_SANITIZE MATCHES thread)
    find_package(OneDNN 2.6 QUIET)
  endif()
elseif(knapformer_enable_onednn)
  find_package(OneDNN 2.6 REQUIRED)
endif()
if(OneDNN_FOUND)
  message(STATUS "bfloat16: oneDNN ${OneDNN_VERSION}, ${OneDNN_LIBRARY}")
else()
  message(STATUS "bfloat16: without oneDNN, by the BLAS in float")
endif()

# CBLAS: OpenBLAS unless BLA_VENDOR says otherwise.
if(NOT DEFINED BLA_VENDOR)
  set(BLA_VENDOR OpenBLAS)
endif()
find_package(BLAS REQUIRED)
find_path(CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas REQUIRED)

# An installed static library links these two by the files found here (KnapFormerConfig.cmake).
add_library(KnapFormer::cblas INTERFACE IMPORTED GLOBAL)
target_link_libraries(KnapFormer::cblas INTERFACE BLAS::BLAS)
target_include_directories(KnapFormer::cblas INTERFACE ${CBLAS_INCLUDE_DIR})

add_library(KnapFormer::hdf5 INTERFACE IMPORTED GLOBAL)
target_link_libraries(KnapFormer::hdf5 INTERFACE ${HDF5_C_LIBRARIES})
target_include_directories(KnapFormer::hdf5 INTERFACE ${HDF5_C_INCLUDE_DIRS})
