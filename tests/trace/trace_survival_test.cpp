// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What remains of a trace when its writer is killed, or cannot write any more.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "example.hpp"
#include "knapformer/plan/error.hpp"
#include "knapformer/trace/trace_reader.hpp"
#include "knapformer/trace/trace_writer.hpp"
#include "support/scratch_folder.hpp"

namespace knapformer {
namespace {

using test::example_header;
using test::example_step;
using test::ScratchFolder;

/// Runs `work` in a process of its own and returns its id.
template <class Work>
pid_t in_child(Work&& work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  work();
  std::exit(0);  // not _exit: the exit handlers of HDF5 are part of what must end well
}

/// Waits for the child at most so long, then kills it; its status as waitpid() gives it.
int status_of(pid_t child, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return status;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return status;
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Steps in the file, all of them right.
std::int64_t expect_prefix(const std::filesystem::path& file) {
  const TraceReader reader(file);
  for (std::int64_t i = 0; i < reader.steps(); ++i) {
    EXPECT_EQ(reader.read(i), example_step(i, reader.header())) << "step " << i;
  }
  return reader.steps();
}

TEST(TraceSurvival, AKilledWriterLeavesARightPrefix) {
  const ScratchFolder folder;
  const auto file = folder / "trace.h5";
  const auto seed = static_cast<unsigned>(std::random_device()());
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const TraceHeader header = example_header(8, 4);
  std::int64_t most = 0;
  for (int repetition = 0; repetition < 40; ++repetition) {
    SCOPED_TRACE(repetition);
    std::filesystem::remove(file);
    const TraceFlush flush{1 + static_cast<std::int64_t>(random() % 3), 1e9};
    const std::chrono::microseconds delay(random() % 100'000);
    const pid_t child = in_child([&] {
      TraceWriter writer(file, header, flush);
      for (std::int64_t i = 0;; ++i) writer.append(example_step(i, header));
    });
    ASSERT_GT(child, 0);
    std::this_thread::sleep_for(delay);
    ::kill(child, SIGKILL);
    status_of(child, std::chrono::seconds(10));
    if (std::filesystem::exists(file)) most = std::max(most, expect_prefix(file));
  }
  EXPECT_GT(most, 10) << "no writer lived long enough to test anything";
}

/// Sets how large a file this process may write; beyond, writing fails as on a full disk.
void limit_files(rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(TraceSurvival, AWriterWithoutSpaceFailsAndKeepsWhatItHad) {
  const ScratchFolder folder;
  const TraceHeader header = example_header(8, 4);
  for (int kilobytes = 500; kilobytes < 1500; kilobytes += 99) {
    SCOPED_TRACE(kilobytes);
    const auto file = folder / "trace.h5";
    const auto count = folder / "count";
    const auto left = folder / "left.h5";
    std::filesystem::remove(left);
    const pid_t child = in_child([&] {
      TraceWriter writer(file, header, {1, 1e9});
      limit_files(static_cast<rlim_t>(kilobytes) * 1024);
      std::int64_t steps = 0;
      try {
        for (; steps < 100'000; ++steps) writer.append(example_step(steps, header));
      } catch (const Error&) {
        limit_files(RLIM_INFINITY);  // what the process does elsewhere goes on
      }
      folder.write("count", std::to_string(steps));
      std::filesystem::copy_file(file, left);
      try {
        writer.append(example_step(steps, header));
      } catch (const Error&) {  // it says so every time
        std::exit(3);
      }
    });
    const int status = status_of(child, std::chrono::seconds(30));
    ASSERT_TRUE(WIFEXITED(status)) << "the writer crashed or hung: " << status;
    ASSERT_EQ(WEXITSTATUS(status), 3) << "the writer noticed nothing";
    std::int64_t appended = 0;
    std::ifstream(count) >> appended;
    EXPECT_GE(expect_prefix(file), appended);
    EXPECT_GT(appended, 0);
    EXPECT_TRUE(bytes_of(file) == bytes_of(left)) << "closing changed an incomplete file";
  }
}

}  // namespace
}  // namespace knapformer
