#!/usr/bin/env python3
# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Spack recipe fits the CMake project: its options, its dependencies and their versions.

usage: test_recipe.py SOURCE_DIR
"""

import itertools
import pathlib
import re
import sys
import types
import unittest

from recipe import Prefix, Spec, load

SOURCE = pathlib.Path(sys.argv.pop(1))
RECIPE = load(SOURCE)

# Options that are no variants, and why.
EXCEPTIONS = {
    "KNAPFORMER_ENABLE_RUNTIME": "the package is the runtime",
    "KNAPFORMER_ENABLE_CUDA_CHECK": "a check of this project's own, without a GPU",
}
# What else the recipe may define.
OTHERS = {"Kokkos_ROOT", "MPI_C_COMPILER", "MPI_CXX_COMPILER", "CMAKE_CXX_COMPILER"}
# What CMake looks for without needing it.
UNNEEDED = {"Doxygen"}
# The Spack package of each package that CMake looks for, with the variant that needs it.
PACKAGES = {
    "Kokkos": ("kokkos", ""), "MPI": ("mpi", ""), "HDF5": ("hdf5", ""), "CLI11": ("cli11", ""),
    "nlohmann_json": ("nlohmann-json", ""), "fmt": ("fmt", ""), "BLAS": ("openblas", ""),
    "CUDAToolkit": ("cuda", "+cuda"), "NCCL": ("nccl", "+nccl"), "benchmark": ("benchmark", "+perf"),
    "OneDNN": ("onednn", "+onednn"), "GTest": ("googletest", "+tests"), "Python3": ("python", "+tests"),
}


def cmake_text():
    files = [SOURCE / "CMakeLists.txt", SOURCE / "perf/CMakeLists.txt", SOURCE / "tests/CMakeLists.txt"]
    files += sorted((SOURCE / "cmake").glob("*.cmake")) + sorted((SOURCE / "src").glob("*/CMakeLists.txt"))
    files.remove(SOURCE / "src/python/CMakeLists.txt")  # a project of its own
    return "\n".join(file.read_text() for file in files)


CMAKE = cmake_text()
OPTIONS = set(re.findall(r"^ *(?:option\(|set\((?=\w+ \w+ CACHE STRING))(\w+)", CMAKE, re.MULTILINE))


def defined(on, run_tests=False):
    """What the recipe defines for CMake with the variants `on`: name -> value."""
    package = RECIPE()
    tool = types.SimpleNamespace(prefix=Prefix("/p"), mpicc="mpicc", mpicxx="mpicxx", kokkos_cxx="nvcc_wrapper",
                                 hipcc="hipcc")
    package.spec = Spec(on, kokkos=tool, mpi=tool, hip=tool)
    package.run_tests = run_tests
    return dict(re.fullmatch(r"-D(\w+)=(.*)", argument).groups() for argument in package.cmake_args())


class Recipe(unittest.TestCase):
    def test_every_option_has_a_variant(self):
        switches = {name for name in OPTIONS if name.startswith("KNAPFORMER_ENABLE_")}
        self.assertGreater(len(switches), 4)
        self.assertLessEqual(set(EXCEPTIONS), switches, "an exception that is no option")
        for name in switches - set(EXCEPTIONS):
            variant = name.removeprefix("KNAPFORMER_ENABLE_").lower()
            self.assertIn(variant, RECIPE.declared.variants)
            self.assertEqual(defined([])[name], "OFF")
            self.assertEqual(defined([variant])[name], "ON")

    def test_what_is_defined_exists(self):
        switches = [name for name, default in RECIPE.declared.variants.items() if isinstance(default, bool)]
        for on in itertools.chain([()], itertools.combinations(switches, 1), [switches]):
            self.assertLessEqual(set(defined(on)), OPTIONS | OTHERS)

    def test_variants_that_are_no_options_of_ours(self):
        self.assertEqual(defined(["shared"])["BUILD_SHARED_LIBS"], "ON")
        self.assertEqual(defined([])["BUILD_SHARED_LIBS"], "OFF")
        self.assertEqual(defined([], run_tests=True)["KNAPFORMER_ENABLE_TESTS"], "ON")
        self.assertNotIn("CMAKE_CXX_COMPILER", defined([]))
        self.assertEqual(defined(["cuda"])["CMAKE_CXX_COMPILER"], "nvcc_wrapper")
        self.assertEqual(defined([])["Kokkos_ROOT"], "/p")

    def test_dependencies(self):
        for name in set(re.findall(r"find_package\((\w+)", CMAKE)) - UNNEEDED:
            package, variant = PACKAGES[name]
            self.assertTrue(RECIPE.declared.dependency(package, variant), f"{name} is no dependency")
        self.assertIn("googletest", [spec.split("@")[0] for spec, _, kind in RECIPE.declared.dependencies
                                     if kind == "test"])

    def test_oldest_versions(self):
        needed = dict(re.findall(r"find_package\((\w+) ([0-9.]+)", CMAKE))
        self.assertLessEqual({"Kokkos", "MPI", "HDF5", "CUDAToolkit", "NCCL"}, set(needed))
        for name, oldest in needed.items():
            package, variant = PACKAGES[name]
            self.assertIn(f"{package}@{oldest}:", RECIPE.declared.dependency(package, variant))
        oldest = re.search(r"cmake_minimum_required\(VERSION ([0-9.]+)\)", CMAKE)[1]
        self.assertIn(f"cmake@{oldest}:", RECIPE.declared.dependency("cmake"))

    def test_architecture_reaches_kokkos_and_nccl(self):
        for spec, condition in (("kokkos+cuda cuda_arch=90", "+cuda cuda_arch=90"),
                                ("nccl+cuda cuda_arch=90", "+nccl cuda_arch=90"),
                                ("kokkos+rocm amdgpu_target=gfx90a", "+rocm amdgpu_target=gfx90a"),
                                ("kokkos+openmp", "+openmp")):
            self.assertIn((spec, condition), [found[:2] for found in RECIPE.declared.dependencies])

    def test_conflicts(self):
        stated = {(spec, condition) for spec, condition, _ in RECIPE.declared.conflicts}
        self.assertLessEqual({("+nccl", "~cuda"), ("+cuda", "+rocm"), ("cuda_arch=none", "+cuda")}, stated)
        for spec, condition, message in RECIPE.declared.conflicts:
            self.assertTrue(message, spec)
            for name in re.findall(r"[+~](\w+)", f"{spec} {condition}"):
                self.assertIn(name, RECIPE.declared.variants)

    def test_its_sources_are_this_checkout(self):
        self.assertEqual(RECIPE.git, SOURCE.resolve().as_uri())


if __name__ == "__main__":
    unittest.main()
