// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What moving tokens costs beside MPI_Alltoallv and memcpy of the same bytes, and what preparing a
// step costs; run under mpirun. README.md says what the names and counters mean.

#include <benchmark/benchmark.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <knapformer/comm/mpi.hpp>
#include <knapformer/route/balancer.hpp>
#include <knapformer/route/routing.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lengths.hpp"
#include "rounds.hpp"
#include "uniform_plan.hpp"

namespace knapformer::perf {
namespace {

// Rows of DiT-L/2, which makes sequences of 256 tokens of images of 256 x 256 pixels: a latent
// for each 8 x 8 of them, a token for 2 x 2 latents (arXiv 2212.09748, section 3.2).
constexpr std::int64_t kWidth = 1024;
constexpr std::int64_t kTokens = 256;

constexpr std::int64_t kMaxBytes = 12'000'000'000;          // of all buffers of all ranks together
constexpr std::int64_t kMegabytes[] = {1, 4, 16, 64, 256};  // a rank, in units of 2^20 bytes
constexpr std::int64_t kManySequences = 64;                 // of a rank, however short
constexpr std::int64_t kSharedSequences = 16;               // of the group, at most
constexpr std::int64_t kPreparedSequences = 32;             // of a rank
constexpr std::size_t kMetadataNumbers = 8 + 64;            // that prepare gathers of a rank

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

struct Case {
  Movement movement;
  std::int64_t element_bytes;
  std::int64_t megabytes;
  std::int64_t sequences;  // of a rank where sequences move, of the group where heads do
};

std::int64_t rows_of(const Case& of) { return (of.megabytes << 20) / (kWidth * of.element_bytes); }

bool is_attention(Movement movement) {
  return movement == Movement::kPreAttention || movement == Movement::kPostAttention;
}

/// Uniform traffic of one rank: a routing, and an input and an output of as many bytes.
template <class T>
class Traffic {
 public:
  Traffic(const Communicator& group, const Case& of)
      : movement_(of.movement), routing_(group, plan_for(group.size(), of)) {
    const auto elements = static_cast<std::size_t>(routing_.routed_rows() * heads() * d_head());
    in_ = Elements("in", elements);
    out_ = Elements("out", elements);
    write();
    host_in_ = Kokkos::create_mirror_view(Kokkos::SharedHostPinnedSpace(), in_);
    host_out_ = Kokkos::create_mirror_view(Kokkos::SharedHostPinnedSpace(), out_);
  }

  std::int64_t bytes() const { return static_cast<std::int64_t>(in_.size() * sizeof(T)); }

  /// Sequences, their length, and the contiguous runs of bytes from one rank to another.
  std::string describe() const {
    const Plan& plan = routing_.plan();
    const bool shared = is_attention(movement_);
    const std::int64_t sequences = plan.sequences() / (shared ? 1 : plan.ranks());
    const std::int64_t runs = shared ? sequences : sequences / plan.ranks();
    return std::to_string(bytes()) + " bytes and " + std::to_string(routing_.routed_rows()) +
           " rows a rank, " + std::to_string(sequences) + " sequences of " +
           std::to_string(plan.lengths()[0]) + " tokens " +
           (shared ? "that all share, " : "a rank, ") + std::to_string(runs) + " runs of " +
           std::to_string(bytes() / (runs * plan.ranks())) + " bytes a pair of ranks";
  }

  /// A step has just computed what it moves: it is not in the caches of other ranks.
  void write() const {
    Kokkos::deep_copy(exec_, in_, static_cast<T>(routing_.group().rank() + 1));
    exec_.fence();
  }

  void move() const {
    const std::int64_t rows = routing_.routed_rows();
    const Matrix from(in_.data(), rows, heads() * d_head());
    const Matrix to(out_.data(), rows, heads() * d_head());
    const PerHead from_tokens(in_.data(), rows, heads(), d_head());
    const PerHead to_tokens(out_.data(), rows, heads(), d_head());
    const Matrix from_heads(in_.data(), routing_.head_rows(), d_head());
    const Matrix to_heads(out_.data(), routing_.head_rows(), d_head());
    switch (movement_) {
      case Movement::kRoute:
        routing_.route_into(exec_, std::tie(to), from);
        break;
      case Movement::kReverseRoute:
        routing_.reverse_route_into(exec_, std::tie(to), from);
        break;
      case Movement::kPreAttention:
        routing_.pre_attention_into(exec_, std::tie(to_heads), from_tokens);
        break;
      case Movement::kPostAttention:
        routing_.post_attention_into(exec_, std::tie(to_tokens), from_heads);
        break;
      default:
        throw Error("bench_route: rows of whole sequences are not measured");
    }
    exec_.fence();
  }

  /// From buffers that the host can read, where MPI cannot read those of the device.
  void all_to_all() const {
    const auto ranks = static_cast<std::size_t>(routing_.group().size());
    const std::vector<int> counts(ranks, static_cast<int>(in_.size() / ranks * sizeof(T)));
    std::vector<int> offsets(ranks, 0);
    for (std::size_t r = 1; r < ranks; ++r) offsets[r] = offsets[r - 1] + counts[r - 1];
    const bool direct = routing_.group().options().direct;
    MPI_Alltoallv(direct ? in_.data() : host_in_.data(), counts.data(), offsets.data(), MPI_BYTE,
                  direct ? out_.data() : host_out_.data(), counts.data(), offsets.data(), MPI_BYTE,
                  MPI_COMM_WORLD);
  }

  void copy() const {
    if constexpr (Kokkos::SpaceAccessibility<Kokkos::HostSpace, Device::memory_space>::accessible) {
      std::memcpy(out_.data(), in_.data(), static_cast<std::size_t>(bytes()));
    } else {
      Kokkos::deep_copy(exec_, out_, in_);
      exec_.fence();
    }
  }

 private:
  using Elements = Kokkos::View<T*, Device>;
  using HostElements = decltype(Kokkos::create_mirror_view(Kokkos::SharedHostPinnedSpace(),
                                                           std::declval<Elements>()));
  using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
  using Matrix = Kokkos::View<T**, Kokkos::LayoutRight, Device, Unmanaged>;
  using PerHead = Kokkos::View<T***, Kokkos::LayoutRight, Device, Unmanaged>;

  static Plan plan_for(std::int64_t ranks, const Case& of) {
    const std::int64_t rows = round_up(rows_of(of), of.sequences);
    return is_attention(of.movement) ? shared_plan(ranks, of.sequences, rows)
                                     : scatter_plan(ranks, of.sequences, rows);
  }

  std::int64_t heads() const { return routing_.plan().heads(); }
  std::int64_t d_head() const { return kWidth / heads(); }

  Device exec_;
  Movement movement_;
  Routing routing_;
  Elements in_;
  Elements out_;
  HostElements host_in_;
  HostElements host_out_;
};

template <class T>
void time_movement(benchmark::State& state, const Communicator& group, const Case& of, int pairs) {
  const Traffic<T> traffic(group, of);
  const Comparison result =
      compare({[&] { traffic.move(); }, [&] { traffic.all_to_all(); }, [&] { traffic.copy(); }},
              pairs, [&] { traffic.write(); });
  for (auto _ : state) state.SetIterationTime(result.seconds[0]);
  state.counters["alltoallv_us"] = result.seconds[1] * 1e6;
  state.counters["memcpy_us"] = result.seconds[2] * 1e6;
  state.counters["ratio_to_alltoallv"] = result.ratios[1];
  state.counters["ratio_to_memcpy"] = result.ratios[2];
  state.SetLabel("medians of " + std::to_string(pairs) + " interleaved pairs, slowest rank; " +
                 traffic.describe());
}

/// The metadata of a step alone, and with planning and index lists.
void time_prepare(benchmark::State& state, const Communicator& group, const Topology& topology,
                  int pairs) {
  const auto me = static_cast<std::size_t>(group.rank());
  const Lengths lengths = make_lengths("mixres", group.size(), kPreparedSequences);
  const auto mine = std::span(lengths.values).subspan(me * kPreparedSequences, kPreparedSequences);
  const Balancer balancer(group, {.topology = topology, .heads = uniform_heads(group.size())});
  const std::vector<std::int64_t> metadata(kMetadataNumbers, 1);
  std::vector<std::int64_t> all(metadata.size() * static_cast<std::size_t>(group.size()));
  const auto bytes = static_cast<int>(metadata.size() * sizeof(std::int64_t));
  const Comparison result =
      compare({[&] { balancer.prepare(mine); }, [&] { group.all_gather(std::span(metadata)); },
               [&] {
                 MPI_Allgather(metadata.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE,
                               MPI_COMM_WORLD);
               }},
              pairs);
  for (auto _ : state) state.SetIterationTime(result.seconds[0]);
  state.counters["metadata_gather_us"] = result.seconds[1] * 1e6;
  state.counters["mpi_allgather_us"] = result.seconds[2] * 1e6;
  state.counters["ratio_to_metadata_gather"] = result.ratios[1];
  state.SetLabel("medians of " + std::to_string(pairs) + " interleaved rounds, slowest rank; " +
                 std::to_string(bytes) + " bytes of metadata a rank");
}

void add(const std::string& name, const std::function<void(benchmark::State&)>& run) {
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(1);
}

/// Sequences of 256 tokens; shorter ones where there would not be one for each rank.
std::int64_t usual_sequences(std::int64_t ranks, const Case& of) {
  if (is_attention(of.movement)) {
    return std::clamp<std::int64_t>(ranks * rows_of(of) / kTokens, 1, kSharedSequences);
  }
  return round_up(std::max<std::int64_t>(1, rows_of(of) / kTokens), ranks);
}

void add_movement(const Communicator& group, const std::string& movement, const Case& of,
                  int pairs) {
  const std::string name =
      movement + (of.element_bytes == 4 ? "/fp32/" : "/2-byte/") + std::to_string(of.megabytes) +
      "MB/sequences:" + std::to_string(of.sequences) + "/ranks:" + std::to_string(group.size());
  const std::int64_t buffers = is_attention(of.movement) ? 3 : 2;  // with heads about to travel
  if (group.size() * buffers * (of.megabytes << 20) > kMaxBytes) {
    if (group.rank() == 0) {
      std::fprintf(stderr, "%s is left out: its buffers take more than 12 GB\n", name.c_str());
    }
    return;
  }
  add(name, [=](benchmark::State& state) {
    const auto time = of.element_bytes == 4 ? time_movement<float> : time_movement<std::uint16_t>;
    time(state, group, of, pairs);
  });
}

void add_all(const Communicator& group, int pairs) {
  const std::pair<Movement, std::string> movements[] = {
      {Movement::kRoute, "route"},
      {Movement::kReverseRoute, "reverse_route"},
      {Movement::kPreAttention, "pre_attention"},
      {Movement::kPostAttention, "post_attention"}};
  for (const auto& [movement, name] : movements) {
    for (const std::int64_t bytes : {4, 2}) {
      for (const std::int64_t megabytes : kMegabytes) {
        Case of{movement, bytes, megabytes, 0};
        of.sequences = usual_sequences(group.size(), of);
        add_movement(group, name, of, pairs);
        const std::int64_t many = round_up(kManySequences, group.size());
        if (is_attention(movement) || of.sequences >= many) continue;
        of.sequences = many;
        add_movement(group, name, of, pairs);
      }
    }
  }
  const Topology topologies[] = {Topology::elastic(),
                                 Topology::parse("g1n" + std::to_string(group.size()))};
  for (const Topology& topology : topologies) {
    add("prepare/mixres/" + std::to_string(group.size()) + 'x' +
            std::to_string(kPreparedSequences) + '/' + topology.name(),
        [=](benchmark::State& state) { time_prepare(state, group, topology, pairs); });
  }
}

class Silent : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

/// Takes `--pairs=N` out of the arguments. 0 for anything but a positive number.
int take_pairs(std::vector<char*>& arguments) {
  constexpr std::string_view kOption = "--pairs=";
  int pairs = 101;
  std::erase_if(arguments, [&](std::string_view argument) {
    if (!argument.starts_with(kOption)) return false;
    const std::string_view number = argument.substr(kOption.size());
    const auto [end, error] = std::from_chars(number.begin(), number.end(), pairs);
    if (error != std::errc() || end != number.end() || pairs < 1) pairs = 0;
    return true;
  });
  return pairs;
}

/// Benchmarks are registered and run by all ranks alike; rank 0 prints and writes.
int run(std::vector<char*> arguments) {
  const Communicator group(MPI_COMM_WORLD);
  const int pairs = take_pairs(arguments);
  if (group.rank() > 0) {
    std::erase_if(arguments, [](std::string_view argument) {
      return argument.starts_with("--benchmark_out");
    });
  }
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
  if (pairs == 0 || count > 1) {
    if (group.rank() == 0) {
      std::fprintf(stderr, "bench_route takes --pairs=N and --benchmark_...; what is %s?\n",
                   pairs == 0 ? "the number of pairs" : arguments[1]);
    }
    return 1;
  }
  add_all(group, pairs);
  Silent silent;
  const std::size_t ran = group.rank() == 0 ? benchmark::RunSpecifiedBenchmarks()
                                            : benchmark::RunSpecifiedBenchmarks(&silent);
  benchmark::ClearRegisteredBenchmarks();
  return ran > 0 ? 0 : 1;
}

}  // namespace
}  // namespace knapformer::perf

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 1;
  {
    Kokkos::ScopeGuard kokkos(argc, argv);
    status = knapformer::perf::run({argv, argv + argc});
  }
  MPI_Finalize();
  return status;
}
