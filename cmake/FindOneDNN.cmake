# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Finds oneDNN below OneDNN_ROOT, CMAKE_PREFIX_PATH, or in the usual places, if its threads are those of
# OpenMP. Its own package files are not used: Debian's want the development files of OpenCL.
# Defines OneDNN_FOUND, OneDNN_VERSION and the target OneDNN::OneDNN.

find_path(OneDNN_INCLUDE_DIR dnnl.hpp)
find_library(OneDNN_LIBRARY dnnl)
mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)

set(OneDNN_VERSION)
set(onednn_headers "${OneDNN_INCLUDE_DIR}/oneapi/dnnl")
if(EXISTS "${onednn_headers}/dnnl_version.h" AND EXISTS "${onednn_headers}/dnnl_config.h")
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${onednn_headers}/dnnl_version.h" line REGEX "^#define DNNL_VERSION_${part} +[0-9]+" LIMIT_COUNT 1)
    string(REGEX REPLACE ".* " "" number "${line}")
    list(APPEND OneDNN_VERSION "${number}")
  endforeach()
  list(JOIN OneDNN_VERSION "." OneDNN_VERSION)
  file(STRINGS "${onednn_headers}/dnnl_config.h" OneDNN_OPENMP
    REGEX "^#define DNNL_CPU_THREADING_RUNTIME DNNL_RUNTIME_OMP" LIMIT_COUNT 1)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN
  REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR OneDNN_OPENMP VERSION_VAR OneDNN_VERSION)

if(OneDNN_FOUND AND NOT TARGET OneDNN::OneDNN)
  add_library(OneDNN::OneDNN UNKNOWN IMPORTED)
  set_target_properties(OneDNN::OneDNN PROPERTIES
    IMPORTED_LOCATION "${OneDNN_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${OneDNN_INCLUDE_DIR}")
endif()
