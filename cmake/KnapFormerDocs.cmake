# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# The target `docs`, where Doxygen is found: the reference and the guides, in the build folder's docs/html.
find_package(Doxygen QUIET)
if(DOXYGEN_FOUND)
  set(KNAPFORMER_DOCS_FOLDER "${PROJECT_BINARY_DIR}/docs")
  configure_file("${PROJECT_SOURCE_DIR}/docs/Doxyfile.in" "${KNAPFORMER_DOCS_FOLDER}/Doxyfile" @ONLY)
  add_custom_target(docs
    COMMAND Doxygen::doxygen "${KNAPFORMER_DOCS_FOLDER}/Doxyfile"
    COMMAND ${CMAKE_COMMAND} -E echo "Open ${KNAPFORMER_DOCS_FOLDER}/html/index.html" VERBATIM)
endif()
