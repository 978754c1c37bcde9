# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The front door. It installs what is missing on Debian and forwards to CMake, which also works alone:
# cmake -B build -DKokkos_ROOT=... ; cmake --build build

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
RANKS ?= 2
CMAKE_ARGS ?=
CTEST_ARGS ?=
BENCH_ARGS ?=
SUITE ?= cpu
OUTPUT ?= build/perf-$(SUITE).json
SETUP ?= yes
CUDA_CHECK ?= yes
FORTRAN ?= $(if $(and $(shell command -v gfortran),$(shell command -v mpifort)),yes,no)

# What `make demo` computes; `build/knapformer simulate --help` explains the options. At these rates no
# sample is longer than 4096 tokens, and the imbalance between two ranks is worth a third of a step.
DEMO_ARGS ?= simulate --manifest tests/data/manifests/videos_and_images.csv \
	--patch 96 --temporal 8 --samples-per-rank 6 --seed 3 --trace build/demo.h5 --json build/demo.json

# The cores are shared out between the ranks; no rank is bound to a single one. Open MPI (OMPI_, from
# version 5 on PRTE_) is told that ranks may share cores and, where it is true, that root runs it. Of its
# transports unused on one machine, TCP complains about some networks and OFI takes a second to start.
THREADS ?= $(shell n=$$(($$(nproc) / $(RANKS))); echo $$((n > 0 ? n : 1)))
MPI_ENVIRONMENT = env OMP_NUM_THREADS=$(THREADS) OMP_PROC_BIND=false \
	OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1 \
	OMPI_MCA_btl=^tcp,ofi \
	PRTE_MCA_hwloc_default_binding_policy=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
	$(if $(filter 0,$(shell id -u)),OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
MPIRUN = $(MPI_ENVIRONMENT) mpirun -n $(RANKS)

# The generator can only be chosen for a new build folder, $(1).
generator = $(if $(wildcard $(1)/CMakeCache.txt),,$(if $(shell command -v ninja 2>&1),-G Ninja))

# Runs the tests in the build folder $(1) that ctest's options $(2) choose, and says how many ran: none is
# a failure.
define run_tests
	@echo "== running the tests in $(1)"
	@rm -f $(1)/tests.xml; \
	ctest --test-dir $(1) -j $(JOBS) $(2) $(CTEST_ARGS) --output-on-failure --no-tests=error --output-junit tests.xml; status=$$?; \
	cmake -DFILE=$(1)/tests.xml -P cmake/count-tests.cmake && exit $$status
endef

# Builds and runs the tests under MPI of the preset $(1).
define run_mpi_tests
	@echo '== configuring build-$(1)'
	@cmake --preset $(1) $(call generator,build-$(1)) $(CMAKE_ARGS)
	@echo '== building the tests under MPI with $(JOBS) jobs'
	@cmake --build build-$(1) -j $(JOBS) --target mpi-tests
	$(call run_tests,build-$(1),-L '^mpi$$')
endef

.PHONY: help setup build demo check bench bench-route two-hosts asan mpich tsan install perf perf-programs slurm
.DEFAULT_GOAL := help

help:
	@echo 'make demo         set up this machine, build, and run balanced training on $(RANKS) ranks'
	@echo 'make check        set up this machine, build, and run every test'
	@echo 'make bench        set up this machine, build, and time the planner on one core'
	@echo 'make bench-route  the same for moving tokens between $(RANKS) ranks, beside MPI_Alltoallv'
	@echo 'make two-hosts    what plans that know the nodes spare the link between two hosts made up here (root)'
	@echo 'make build        set up this machine and build, in build/'
	@echo 'make install      the same, then install to PREFIX=$(PREFIX)'
	@echo 'make asan         the tests once more, with sanitizers (without those of installing, Python and benchmarks)'
	@echo 'make mpich        the tests under MPI once more, with MPICH'
	@echo 'make tsan         the same with ThreadSanitizer, and a Kokkos that has no threads of its own'
	@echo 'make perf         run a performance suite of perf/suites.json: SUITE=cpu, quick or gpu; OUTPUT=FILE'
	@echo 'make slurm        submit the quick suite to a Slurm of one node, started for it (root)'
	@echo 'make setup        install what is missing (Debian), after listing it; YES=1 does not ask'
	@echo
	@echo 'JOBS=$(JOBS)   RANKS=$(RANKS)   SETUP=no skips the set-up, CUDA_CHECK=no the compilation with nvcc'
	@echo 'FORTRAN=$(FORTRAN)   whether the Fortran module is built: where there is gfortran and mpifort'
	@echo 'BENCH_ARGS="--benchmark_filter=32x32" is passed to the benchmark'
	@echo 'CMAKE_ARGS="-DKokkos_ROOT=..." is passed to CMake, CTEST_ARGS="-R ^plan" to ctest'

setup:
ifneq ($(SETUP),no)
	@CMAKE_ARGS='$(CMAKE_ARGS)' bash cmake/setup-debian.sh $(SETUP_MORE)
endif

build: setup
	@echo '== configuring build'
	@cmake --preset release $(call generator,build) \
		-DKNAPFORMER_ENABLE_FORTRAN=$(if $(filter yes,$(FORTRAN)),ON,OFF) $(CMAKE_ARGS)
	@echo '== building with $(JOBS) jobs'
	@cmake --build build -j $(JOBS)

demo: build
	@echo '== running knapformer on $(RANKS) ranks'
	@$(MPIRUN) build/knapformer $(DEMO_ARGS)

check: build
	$(call run_tests,build)
ifneq ($(CUDA_CHECK),no)
	@echo '== compiling the device code with nvcc'
	@cmake -DKNAPFORMER_ENABLE_CUDA_CHECK=ON build >build/cuda-check.log || { cat build/cuda-check.log; exit 1; }
	@cmake --build build -j $(JOBS) --target cuda-check
endif

# The planner needs no Kokkos, so neither does its benchmark.
bench: setup
	@cmake --preset release $(call generator,build) -DKNAPFORMER_ENABLE_PERF=ON $(CMAKE_ARGS)
	@cmake --build build -j $(JOBS) --target bench_planner
	@build/perf/bench_planner $(BENCH_ARGS)

bench-route: setup
	@cmake --preset release $(call generator,build) -DKNAPFORMER_ENABLE_PERF=ON $(CMAKE_ARGS)
	@cmake --build build -j $(JOBS) --target bench_route
	@$(MPIRUN) build/perf/bench_route $(BENCH_ARGS)

perf-programs: setup
	@cmake --preset release $(call generator,build) -DKNAPFORMER_ENABLE_PERF=ON $(CMAKE_ARGS)
	@cmake --build build -j $(JOBS) --target knapformer_program \
		bench_planner bench_kernels bench_block bench_route

perf: perf-programs
	@$(MPI_ENVIRONMENT) perf/run_suite.py $(SUITE) --ranks $(RANKS) --output $(OUTPUT)

slurm: SETUP_MORE = slurm
slurm: perf-programs
	@ROUNDS=1 SUITE=quick OUTPUT=build/perf-slurm.json perf/slurm/try_here.sh perf/slurm/cpu.sbatch

two-hosts: SETUP_MORE = iproute2
two-hosts: setup
	@cmake --preset release $(call generator,build) $(CMAKE_ARGS)
	@cmake --build build -j $(JOBS) --target knapformer_program
	@perf/two_hosts.sh build/knapformer

asan: setup
	@echo '== configuring build-asan'
	@cmake --preset asan $(call generator,build-asan) $(CMAKE_ARGS)
	@echo '== building with sanitizers and $(JOBS) jobs'
	@cmake --build build-asan -j $(JOBS)
	$(call run_tests,build-asan)

mpich tsan: SETUP_MORE = mpich
mpich: setup
	$(call run_mpi_tests,mpich)

tsan: setup
ifneq ($(SETUP),no)
	@CMAKE_ARGS='$(CMAKE_ARGS)' bash cmake/serial-kokkos.sh build-tsan/kokkos
endif
	$(call run_mpi_tests,tsan)

install: build
	@echo '== installing to $(PREFIX)'
	@cmake --install build --prefix '$(PREFIX)'
