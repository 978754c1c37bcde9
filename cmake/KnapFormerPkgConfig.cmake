# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# knapformer-plan.pc, knapformer.pc and knapformer-fortran.pc, for builds without CMake. Ours is found relative to them; Kokkos, MPI and the
# like where CMake found them.

# Appends to `cflags` and `libs` of the caller what code that links `items` compiles and links with.
function(knapformer_collect_flags items)
  foreach(item IN LISTS items)
    set(link_only FALSE)
    if(item MATCHES "^\\$<LINK_ONLY:(.+)>$")
      set(item "${CMAKE_MATCH_1}")
      set(link_only TRUE)
    endif()
    if(item MATCHES "^KnapFormer::(plan|knapformer)$" OR item MATCHES "^::@")
      continue()
    elseif(TARGET ${item})
      get_target_property(type ${item} TYPE)
      if(NOT type STREQUAL "INTERFACE_LIBRARY")
        list(APPEND libs "$<TARGET_LINKER_FILE:${item}>")
      endif()
      set(outer_cflags "${cflags}")
      foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS LINK_OPTIONS LINK_LIBRARIES)
        get_target_property(${property} ${item} INTERFACE_${property})
        if(NOT ${property})
          set(${property})
        endif()
        # The language is C or C++. Other conditions are not ours to decide.
        string(REGEX REPLACE "\\$<\\$<(COMPILE|LINK)_LANGUAGE:CXX>:([^>]*)>" "\\2" ${property} "${${property}}")
        string(REPLACE "SHELL:" "" ${property} "${${property}}")
      endforeach()
      list(FILTER COMPILE_OPTIONS INCLUDE REGEX "^-[fm]|^-pthread$")  # those that C compilers know
      list(FILTER LINK_OPTIONS EXCLUDE REGEX "^-D")
      foreach(list INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS LINK_OPTIONS)
        list(FILTER ${list} EXCLUDE REGEX "^$|\\$<")
      endforeach()
      list(TRANSFORM INCLUDE_DIRECTORIES PREPEND "-I")
      list(TRANSFORM COMPILE_DEFINITIONS PREPEND "-D")
      list(APPEND cflags ${INCLUDE_DIRECTORIES} ${COMPILE_DEFINITIONS} ${COMPILE_OPTIONS})
      list(APPEND libs ${LINK_OPTIONS})
      knapformer_collect_flags("${LINK_LIBRARIES}")
      if(link_only)
        set(cflags "${outer_cflags}")
      endif()
    elseif(item MATCHES "^[-/]")
      list(APPEND libs "${item}")
    elseif(NOT item MATCHES "\\$<")
      list(APPEND libs "-l${item}")
    endif()
  endforeach()
  set(cflags "${cflags}" PARENT_SCOPE)
  set(libs "${libs}" PARENT_SCOPE)
endfunction()

# Writes and installs the file `name`.pc of the library `target`, whose headers or modules are in `include`; ARGN: names
# of other files that it needs.
function(knapformer_pkg_config name target include description)
  set(cflags)
  set(libs)
  get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
  if(links)
    knapformer_collect_flags("${links}")
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    set(runtime ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})  # for those who link with a C compiler
    list(REMOVE_ITEM runtime ${CMAKE_C_IMPLICIT_LINK_LIBRARIES})
    list(TRANSFORM runtime REPLACE "^([^-/].*)" "-l\\1")
    list(APPEND libs ${runtime})
  endif()
  list(REMOVE_DUPLICATES cflags)
  list(REVERSE libs)  # archives come before what they need: of several mentions the last one stays
  list(REMOVE_DUPLICATES libs)
  list(REVERSE libs)
  list(JOIN cflags " " cflags)
  list(JOIN libs " " libs)
  list(JOIN ARGN " " requires)
  set(folder "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  file(RELATIVE_PATH prefix "/${folder}" "/")
  string(REGEX REPLACE "/$" "" prefix "${prefix}")
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/${name}.pc" CONTENT
"prefix=\${pcfiledir}/${prefix}
includedir=\${prefix}/${include}
libdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}

Name: ${name}
Description: ${description}
Version: ${PROJECT_VERSION}
Requires: ${requires}
Cflags: -I\${includedir} ${cflags}
Libs: -L\${libdir} -l$<TARGET_FILE_BASE_NAME:${target}> ${libs}
")
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${folder}")
endfunction()

knapformer_pkg_config(knapformer-plan knapformer_plan "${CMAKE_INSTALL_INCLUDEDIR}" "The planner of KnapFormer")
if(KNAPFORMER_ENABLE_RUNTIME)
  knapformer_pkg_config(knapformer knapformer "${CMAKE_INSTALL_INCLUDEDIR}" "${PROJECT_DESCRIPTION}" knapformer-plan)
  if(KNAPFORMER_ENABLE_FORTRAN)
    knapformer_pkg_config(knapformer-fortran knapformer_fortran "${CMAKE_INSTALL_INCLUDEDIR}/knapformer/fortran"
      "The Fortran module of KnapFormer" knapformer)
  endif()
endif()
