# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage

from spack.package import *


class Knapformer(CMakePackage, CudaPackage, ROCmPackage):
    """Online load balancing for training diffusion transformers: before each step the ranks of a
    group share their sequence lengths, solve the same knapsack problem, and exchange tokens so that
    all have the same amount of work. A C++20 library on Kokkos and MPI, and a program."""

    # The sources of `main` are those of the checkout that this recipe lies in.
    git = pathlib.Path(__file__).resolve().parents[5].as_uri()

    license("Apache-2.0 WITH LLVM-exception")

    test_requires_compiler = True

    version("main", branch="main")

    variant("shared", default=True, description="Build shared libraries")
    variant("openmp", default=True, description="Compute on the host with OpenMP")
    variant("nccl", default=False, description="Move tokens between CUDA devices with NCCL")
    variant("onednn", default=False, description="Multiply bfloat16 matrices on the host with oneDNN")
    variant("fortran", default=False, description="Build the Fortran module")
    variant("tests", default=False, description="Build the tests")
    variant("perf", default=False, description="Build the benchmarks")
    # Kokkos is built for one architecture.
    variant(
        "cuda_arch",
        default="none",
        values=("none",) + CudaPackage.cuda_arch_values,
        multi=False,
        sticky=True,
        description="CUDA architecture",
        when="+cuda",
    )
    variant(
        "amdgpu_target",
        default="none",
        values=("none",) + ROCmPackage.amdgpu_targets,
        multi=False,
        sticky=True,
        description="AMD GPU architecture",
        when="+rocm",
    )

    depends_on("c", type="build")  # how CMake finds HDF5
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.21:", type="build")
    depends_on("kokkos@4.5:")
    depends_on("mpi@3.1:")
    depends_on("hdf5@1.10:")
    depends_on("openblas")  # its CBLAS
    depends_on("cli11@2.1:")
    depends_on("nlohmann-json@3.9:")
    depends_on("fmt@9:")
    depends_on("googletest@1.12:", type="test")
    depends_on("python@3:", type="test")
    with when("+tests"):
        depends_on("googletest@1.12:", type="build")
        depends_on("python@3:", type="build")
    depends_on("benchmark@1.7:", when="+perf")
    depends_on("onednn@2.6: cpu_runtime=omp", when="+onednn")  # it must share Kokkos's threads

    depends_on("kokkos+pic", when="+shared ^kokkos~shared")
    with when("+openmp"):
        depends_on("kokkos+openmp")
        depends_on("openblas threads=openmp")

    with when("+cuda"):
        depends_on("cuda@12.4:")
        requires("^kokkos+wrapper")
        requires("^kokkos+cuda_lambda", when="^kokkos@:4")
    depends_on("nccl@2.19:", when="+nccl")
    for arch in CudaPackage.cuda_arch_values:
        depends_on(f"kokkos+cuda cuda_arch={arch}", when=f"+cuda cuda_arch={arch}")
        depends_on(f"nccl+cuda cuda_arch={arch}", when=f"+nccl cuda_arch={arch}")
    for target in ROCmPackage.amdgpu_targets:
        depends_on(f"kokkos+rocm amdgpu_target={target}", when=f"+rocm amdgpu_target={target}")

    conflicts("cuda_arch=none", when="+cuda", msg="Name the GPU's architecture, e.g. cuda_arch=90")
    conflicts("+nccl", when="~cuda", msg="NCCL moves tokens between CUDA devices: ask for +cuda")
    conflicts("+cuda", when="+rocm", msg="Kokkos is built for CUDA or for ROCm, not for both")
    conflicts("+rocm", msg="Matrix products are written for the host and for CUDA only")
    conflicts("%gcc@:10", msg="C++20 is needed")

    sanity_check_is_file = ["bin/knapformer", "include/knapformer/knapformer.hpp"]

    def compiler_args(self):
        """What a CMake project that compiles Kokkos code is told, this one and its users."""
        args = [
            self.define("Kokkos_ROOT", self.spec["kokkos"].prefix),
            self.define("MPI_C_COMPILER", self.spec["mpi"].mpicc),
            self.define("MPI_CXX_COMPILER", self.spec["mpi"].mpicxx),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CXX_COMPILER", self["kokkos"].kokkos_cxx))
        if self.spec.satisfies("+rocm"):
            args.append(self.define("CMAKE_CXX_COMPILER", self.spec["hip"].hipcc))
        return args

    def cmake_args(self):
        return self.compiler_args() + [
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("KNAPFORMER_ENABLE_FORTRAN", "fortran"),
            self.define_from_variant("KNAPFORMER_ENABLE_ONEDNN", "onednn"),
            self.define_from_variant("KNAPFORMER_ENABLE_NCCL", "nccl"),
            self.define_from_variant("KNAPFORMER_ENABLE_PERF", "perf"),
            self.define(
                "KNAPFORMER_ENABLE_TESTS", self.run_tests or self.spec.satisfies("+tests")
            ),
        ]

    smoke_test = join_path("tests", "install", "runtime")

    @run_after("install")
    def keep_smoke_test(self):
        cache_extra_test_sources(self, [self.smoke_test])

    def test_program(self):
        """the program balances the lengths given to it"""
        knapformer = which(self.prefix.bin.knapformer, required=True)
        with open("lengths.json", "w") as file:
            file.write('{"lengths_by_rank": [[100, 200, 300, 400], []]}')
        arguments = ("plan", "--lengths", "lengths.json", "--topology", "elastic")
        knapformer(*arguments, "--d-model", "64", "--heads", "8")

    def test_consumer(self):
        """a program that uses the installed package compiles and moves tokens"""
        source = join_path(self.test_suite.current_test_cache_dir, self.smoke_test)
        args = [
            self.define("CMAKE_C_COMPILER", self["c"].cc),
            self.define("CMAKE_CXX_COMPILER", self["cxx"].cxx),
            self.define("KnapFormer_ROOT", self.prefix),
        ]
        cmake = which(self.spec["cmake"].prefix.bin.cmake, required=True)
        cmake("-S", source, "-B", "consumer", *args, *self.compiler_args())
        cmake("--build", "consumer")
        which(join_path("consumer", "user"), required=True)()
