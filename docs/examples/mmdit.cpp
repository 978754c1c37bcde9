// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Gradients of a multimodal diffusion transformer on images with their captions, balanced and not.
// Later ranks have larger images.
//     mpirun -n 4 ./mmdit

#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <knapformer/kernels/squared_error.hpp>
#include <knapformer/knapformer.hpp>
#include <knapformer/model/mmdit.hpp>
#include <string>
#include <vector>

namespace kf = knapformer;

struct Image {
  std::int64_t caption, height, width;  // text tokens, and image tokens each way

  std::int64_t patches() const { return height * width; }
};

// Stands for data: numbers between -1 and 1.
template <class View>
View filled(const View& view) {
  using T = typename View::value_type;
  T* const data = view.data();
  Kokkos::parallel_for(
      "fill", Kokkos::RangePolicy<kf::Device>(0, view.size()),
      KOKKOS_LAMBDA(std::size_t i) { data[i] = T(Kokkos::sin(0.7F * static_cast<float>(i))); });
  return view;
}

// Image after image, each its caption and then its patches, row by row.
template <class T>
kf::MMDiTInput<T> load(const kf::MMDiTConfig& config, const std::vector<Image>& images) {
  std::int64_t text = 0, patches = 0;
  for (const Image& image : images) {
    text += image.caption;
    patches += image.patches();
  }
  const kf::Modalities modalities("modalities", text + patches);
  const kf::Positions positions("positions", text + patches);
  const auto modality = Kokkos::create_mirror_view(modalities);
  const auto position = Kokkos::create_mirror_view(positions);
  std::int64_t row = 0;
  for (const Image& image : images) {
    row += image.caption;  // text: modality 0, at (0, 0, 0)
    for (std::int64_t i = 0; i < image.patches(); ++i, ++row) {
      modality(row) = 1;
      position(row, 1) = static_cast<std::int32_t>(i / image.width);
      position(row, 2) = static_cast<std::int32_t>(i % image.width);
    }
  }
  Kokkos::deep_copy(modalities, modality);
  Kokkos::deep_copy(positions, position);
  return {.patches = filled(kf::Matrix<T>("patches", patches, config.d_patch)),
          .text = filled(kf::Matrix<T>("text", text, config.d_text)),
          .modalities = modalities,
          .positions = positions,
          .times = filled(kf::Vector<kf::Accumulate<T>>("times", images.size()))};
}

template <class View>
std::vector<double> doubles(const View& view) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return {host.data(), host.data() + host.size()};
}

// The whole model, from what was loaded to the gradients of a loss.
template <class T>
std::vector<double> train(const kf::Routing& routing, const kf::MMDiT<T>& model,
                          const kf::MMDiTInput<T>& input) {
  const kf::Device exec;
  const kf::Communicator& group = routing.group();
  const kf::Matrix<T> target("target", input.patches.extent(0), input.patches.extent(1));
  const kf::Matrix<T> d_prediction("d_prediction", target.extent(0), target.extent(1));
  const kf::Vector<double> scales("scales", target.extent(0));
  Kokkos::deep_copy(exec, scales, 1e-3);
  Kokkos::deep_copy(exec, model.gradients(), 0);

  kf::MMDiTSaved<T> saved;  // keep it: the next step takes its memory
  const auto prediction = model.forward(exec, routing, input, saved);
  kf::kernels::squared_error(exec, prediction, target, scales, d_prediction);
  model.backward(exec, routing, d_prediction, saved);
  group.all_reduce_sum(exec, model.gradients());

  exec.fence();
  return doubles(model.gradients());
}

// The blocks alone, between ends of your own; the gradient of the conditioning, a row a sequence.
template <class T>
std::vector<double> run_blocks(const kf::Routing& routing, const kf::MMDiT<T>& model,
                               const kf::MMDiTInput<T>& input) {
  const kf::Device exec;
  const kf::MMDiTConfig& config = model.config();
  const auto d = static_cast<std::size_t>(config.d_model);
  const auto tokens = filled(kf::Matrix<T>("tokens", routing.home_rows(), d));
  const auto d_mixed = filled(kf::Matrix<T>("d_mixed", routing.home_rows(), d));
  const auto conditioning = filled(kf::Matrix<T>("conditioning", routing.home_sequences(), d));
  const std::int64_t ends = kf::total_size(kf::mmdit_ends_parameters(config));
  const std::int64_t size = kf::total_size(kf::mmdit_parameters(config)) - ends;
  const kf::Vector<T> parameters("parameters", size);
  const kf::Vector<kf::Accumulate<T>> gradients("gradients", size);
  const auto all = model.parameters();  // the blocks of this model, rounded to T
  Kokkos::parallel_for(
      "round", Kokkos::RangePolicy<kf::Device>(exec, 0, size),
      KOKKOS_LAMBDA(std::int64_t i) { parameters(i) = T(all(ends + i)); });

  const kf::StreamStack<T> stack(config, parameters, gradients);
  kf::StreamSaved<T> saved;
  const auto [x, positions, modalities] =
      routing.route(exec, tokens, input.positions, input.modalities);
  const auto chunk_conditioning = routing.route_sequences(exec, conditioning);
  const auto y = stack.forward(exec, routing, x, chunk_conditioning, modalities, positions, saved);
  const auto mixed = routing.reverse_route(exec, y);

  const auto dy = routing.reverse_route_adjoint(exec, d_mixed);
  const auto d_inputs = stack.backward(exec, routing, dy, saved);
  const auto d_tokens = routing.route_adjoint(exec, d_inputs.x);
  const auto d_conditioning = routing.route_sequences_adjoint(exec, d_inputs.conditioning);

  exec.fence();
  return doubles(d_conditioning);
}

// The norm of the difference on all ranks, relative to that of `b`.
double difference(const kf::Communicator& group, const std::vector<double>& a,
                  const std::vector<double>& b) {
  double squares[2] = {};
  for (std::size_t i = 0; i < b.size(); ++i) {
    squares[0] += (a[i] - b[i]) * (a[i] - b[i]);
    squares[1] += b[i] * b[i];
  }
  const auto all = group.all_gather(std::span<const double>(squares));
  double sums[2] = {};
  for (std::size_t i = 0; i < all.size(); ++i) sums[i % 2] += all[i];
  return std::sqrt(sums[0] / sums[1]);
}

template <class T>
bool run(const kf::Communicator& group, const char* element, double tolerance) {
  kf::MMDiTConfig config = kf::mmdit_preset("tiny");
  config.d_text = 64;  // of what the text encoder gives
  const kf::MMDiT<T> model(config, /*seed=*/1);

  const std::int64_t side = 4 * (group.rank() + 1);
  const std::vector<Image> images = {{.caption = 12, .height = side, .width = 2 * side},
                                     {.caption = 30, .height = side, .width = side}};
  std::vector<std::int64_t> lengths;
  for (const Image& image : images) lengths.push_back(image.caption + image.patches());
  const kf::MMDiTInput<T> input = load<T>(config, images);

  const auto routing = [&](bool balance) {
    const kf::Balancer balancer(group, {.topology = kf::Topology::elastic(),
                                        .cost = kf::CostModel::transformer(config.d_model),
                                        .heads = config.heads,
                                        .balance = balance,
                                        .machine = kf::Machine::without_communication()});
    return balancer.prepare(lengths);
  };
  const kf::Routing balanced = routing(true), home = routing(false);
  const double of_model =
      difference(group, train(balanced, model, input), train(home, model, input));
  const double of_blocks =
      difference(group, run_blocks(balanced, model, input), run_blocks(home, model, input));
  const bool same = of_model <= tolerance && of_blocks <= tolerance;
  const kf::PlanReport& report = balanced.plan().report();
  if (group.rank() == 0) {
    std::printf("%s: largest over mean work %.3f before, %.3f after balancing\n", element,
                report.max_over_mean_before, report.max_over_mean);
    std::printf("%s: relative difference of the balanced gradients: model %.0e, blocks %.0e: %s\n",
                element, of_model, of_blocks, same ? "the same gradients" : "ANOTHER ANSWER");
  }
  return same;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const bool same = [&] {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    const kf::Communicator world(MPI_COMM_WORLD);
    return run<float>(world, "float", 1e-5) && run<kf::bfloat16>(world, "bfloat16", 2e-2);
  }();
  MPI_Finalize();
  return same ? 0 : 1;
}
