// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/info_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>
#include <knapformer/comm/mpi.hpp>
#include <knapformer/kernels/gemm.hpp>
#include <string>
#include <thread>

#include "cli/text_file.hpp"
#include "plan/message.hpp"

namespace knapformer::cli {
namespace {

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);  // allowed before MPI_Init
  const std::string line(text);            // some count the terminating null in `length`
  return line.substr(0, line.find_first_of("\r\n"));
}

void run() {
  const Kokkos::ScopeGuard kokkos(Kokkos::InitializationSettings().set_disable_warnings(true));
  const auto line = [](const char* what, const std::string& value) {
    return fmt::format("{:<12}{}\n", what, value);
  };
  int standard = 0, revision = 0;
  MPI_Get_version(&standard, &revision);
  std::string text = line("KnapFormer", KNAPFORMER_VERSION);
  text += line("compiler", fmt::format("{}, C++{}", KNAPFORMER_COMPILER, __cplusplus / 100 % 100));
  text += line("Kokkos", fmt::format("{}.{}.{}, default execution space {}, host {}",
                                     KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100,
                                     KOKKOS_VERSION % 100, Kokkos::DefaultExecutionSpace::name(),
                                     Kokkos::DefaultHostExecutionSpace::name()));
  const int device = Kokkos::device_id();  // -1 on the host
  text += line("devices", device < 0 ? "none: everything runs on the host"
                                     : fmt::format("{}, this process has number {}",
                                                   Kokkos::num_devices(), device));
  text += line(
      "cores",
      fmt::format("{}, this process uses {} (OMP_NUM_THREADS)", std::thread::hardware_concurrency(),
                  plural(Kokkos::DefaultHostExecutionSpace().concurrency(), "thread")));
  text += line("MPI", fmt::format("{} (MPI {}.{})", mpi_library(), standard, revision));
  text += line("GEMM", kernels::gemm_library());
  text += line("HDF5", KNAPFORMER_HDF5);
  text += line("NCCL", KNAPFORMER_NCCL);
  write_text("-", text);
}

}  // namespace

Command add_info_command(CLI::App& app) {
  CLI::App* info = app.add_subcommand("info", "Print versions, backends and devices");
  return {info, false, run};
}

}  // namespace knapformer::cli
