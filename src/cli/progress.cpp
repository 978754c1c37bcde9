// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "cli/progress.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

namespace knapformer::cli {

namespace {

bool is_launcher(std::string_view program) {
  constexpr std::array<std::string_view, 9> kLaunchers = {
      "mpirun", "mpiexec",         "orterun", "orted",     "prterun",
      "prted",  "hydra_pmi_proxy", "srun",    "slurmstepd"};
  for (const std::string_view launcher : kLaunchers) {
    if (program.starts_with(launcher)) return true;
  }
  return false;
}

/// Whether file descriptor 2 of a process is a terminal.
bool terminal_of(const std::string& process) {
  const int fd = open((process + "/fd/2").c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return false;
  const bool terminal = isatty(fd) != 0;
  close(fd);
  return terminal;
}

/// A launcher reads our stderr from a pipe and writes it to its own: what counts is where that
/// goes.
bool watched() {
  if (isatty(STDERR_FILENO)) return true;
  std::string process = fmt::format("/proc/{}", getppid());
  for (int generation = 0; generation < 3; ++generation) {
    std::string name;
    std::getline(std::ifstream(process + "/comm"), name);
    if (!is_launcher(name)) return false;
    if (terminal_of(process)) return true;
    std::ifstream status(process + "/status");
    std::string word;
    while (status >> word && word != "PPid:") {
    }
    if (!(status >> word)) return false;
    process = "/proc/" + word;
  }
  return false;
}

}  // namespace

Progress::Progress(std::int64_t total, bool shown)
    : total_(total), shown_(shown && watched()), start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (shown_ && done_ > 0) fmt::print(stderr, "\r\x1b[K");
}

void Progress::advance() {
  ++done_;
  if (!shown_) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  const double left =
      elapsed.count() / static_cast<double>(done_) * static_cast<double>(total_ - done_);
  fmt::print(stderr, "\r\x1b[Kstep {} of {}, about {:.0f} s left", done_, total_, left);
  std::fflush(stderr);
}

}  // namespace knapformer::cli
