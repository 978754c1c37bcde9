# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The package KnapFormer: component `plan` with KnapFormer::plan, component `knapformer` with
# KnapFormer::knapformer where the runtime is built, and component `fortran` with KnapFormer::fortran
# where the module is. Relocatable.

include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/KnapFormer")

install(TARGETS knapformer_plan EXPORT KnapFormerPlan)
install(EXPORT KnapFormerPlan NAMESPACE KnapFormer:: DESTINATION "${package_dir}"
  FILE KnapFormerPlanTargets.cmake)
install(DIRECTORY include/knapformer/plan DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/knapformer"
  FILES_MATCHING PATTERN "*.hpp")
install(FILES include/knapformer/knapformer_plan.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/knapformer")

if(KNAPFORMER_ENABLE_RUNTIME)
  # Programs and shared libraries find ours beside them, and Kokkos, MPI and HDF5 where they are now.
  file(RELATIVE_PATH bin_to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  set_target_properties(knapformer knapformer_program PROPERTIES
    INSTALL_RPATH "$ORIGIN;$ORIGIN/${bin_to_lib}" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS knapformer EXPORT KnapFormerRuntime)
  install(TARGETS knapformer_program)
  install(EXPORT KnapFormerRuntime NAMESPACE KnapFormer:: DESTINATION "${package_dir}"
    FILE KnapFormerRuntimeTargets.cmake)
  install(DIRECTORY include/knapformer DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")

  if(KNAPFORMER_ENABLE_FORTRAN)
    set_target_properties(knapformer_fortran PROPERTIES INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS knapformer_fortran EXPORT KnapFormerRuntime)
    get_target_property(modules knapformer_fortran Fortran_MODULE_DIRECTORY)
    install(DIRECTORY "${modules}/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/knapformer/fortran")
  endif()

  # What a static library links privately, as files: whoever links it need not search again.
  set(hdf5_libraries ${HDF5_C_LIBRARIES})
  foreach(library IN LISTS HDF5_C_LIBRARIES)
    if(TARGET ${library})  # HDF5's own CMake package
      set(hdf5_libraries ${HDF5_C_LIBRARY})
    endif()
  endforeach()
  set(static_dependencies)
  get_target_property(links knapformer LINK_LIBRARIES)
  foreach(package fmt nlohmann_json)
    if("${links}" MATCHES "${package}::")
      string(APPEND static_dependencies "find_dependency(${package})\n    ")
    endif()
  endforeach()
  if(Kokkos_ENABLE_CUDA)
    string(APPEND static_dependencies "find_dependency(CUDAToolkit)\n    ")
  endif()
  if(KNAPFORMER_ENABLE_NCCL)
    install(FILES cmake/FindNCCL.cmake DESTINATION "${package_dir}")
    string(APPEND static_dependencies [[list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")
    find_dependency(NCCL)
    list(POP_BACK CMAKE_MODULE_PATH)
    ]])
  endif()
endif()

configure_package_config_file(cmake/KnapFormerConfig.cmake.in KnapFormerConfig.cmake
  INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(KnapFormerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/KnapFormerConfig.cmake"
  "${PROJECT_BINARY_DIR}/KnapFormerConfigVersion.cmake" DESTINATION "${package_dir}")
