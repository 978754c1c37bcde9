// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <fmt/format.h>

#include <knapformer/model/stream_order.hpp>
#include <knapformer/plan/error.hpp>
#include <utility>
#include <vector>

namespace knapformer {
namespace {

/// One device array for all lists.
class Lists {
 public:
  Kokkos::pair<std::size_t, std::size_t> add(const std::vector<std::int64_t>& list) {
    const std::size_t first = all_.size();
    all_.insert(all_.end(), list.begin(), list.end());
    return {first, all_.size()};
  }

  RowIndex to_device(const Device& exec, Kokkos::View<std::int64_t*, Device>& memory) const {
    if (all_.size() > memory.extent(0)) {
      memory = {};  // before the new one is there
      memory = Kokkos::View<std::int64_t*, Device>(
          Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "KnapFormer::stream order"),
          all_.size());
    }
    const Kokkos::View<std::int64_t*, Device> view(memory.data(), all_.size());
    Kokkos::deep_copy(exec, view,
                      Kokkos::View<const std::int64_t*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                          all_.data(), all_.size()));
    exec.fence("KnapFormer::stream order");
    return view;
  }

 private:
  std::vector<std::int64_t> all_;
};

std::vector<std::int32_t> to_host(const Device& exec, const Modalities& modalities) {
  std::vector<std::int32_t> host(modalities.extent(0));
  Kokkos::deep_copy(exec,
                    Kokkos::View<std::int32_t*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                        host.data(), host.size()),
                    modalities);
  exec.fence("KnapFormer::modalities");
  return host;
}

}  // namespace

StreamOrder make_stream_order(const Device& exec, const Modalities& modalities,
                              std::span<const std::int64_t> offsets, StreamOrder old) {
  const auto rows = static_cast<std::int64_t>(modalities.extent(0));
  if (offsets.empty() || offsets.back() != rows) {
    throw Error(fmt::format("stream order: {} modalities for {} tokens", rows,
                            offsets.empty() ? 0 : offsets.back()));
  }
  const std::vector<std::int32_t> kinds = to_host(exec, modalities);
  std::vector<std::int64_t> text, image, text_offsets{0}, image_offsets{0};
  for (std::size_t chunk = 0; chunk + 1 < offsets.size(); ++chunk) {
    for (std::int64_t row = offsets[chunk]; row < offsets[chunk + 1]; ++row) {
      const std::int32_t kind = kinds[static_cast<std::size_t>(row)];
      if (kind != 0 && kind != 1) {
        throw Error(fmt::format(
            "stream order: the modality of token {} is {}, must be 0 (text) or 1 (image)", row,
            kind));
      }
      (kind == 0 ? text : image).push_back(row);
    }
    text_offsets.push_back(std::ssize(text));
    image_offsets.push_back(std::ssize(image));
  }
  StreamOrder order;
  order.text_rows = std::ssize(text);
  order.image_rows = std::ssize(image);
  order.chunks = std::ssize(offsets) - 1;
  text.insert(text.end(), image.begin(), image.end());
  Lists lists;
  const auto row_range = lists.add(text);
  const auto all_range = lists.add({offsets.begin(), offsets.end()});
  const auto text_range = lists.add(text_offsets), image_range = lists.add(image_offsets);
  order.memory = std::move(old.memory);
  const RowIndex all = lists.to_device(exec, order.memory);
  order.rows = Kokkos::subview(all, row_range);
  order.all = Kokkos::subview(all, all_range);
  order.text = Kokkos::subview(all, text_range);
  order.image = Kokkos::subview(all, image_range);
  return order;
}

StreamOrder make_stream_order(const Device& exec, const Routing& routing,
                              const Modalities& modalities, StreamOrder old) {
  std::vector<std::int64_t> offsets;
  for (const LocalChunk& chunk : routing.chunks()) offsets.push_back(chunk.first_row);
  offsets.push_back(routing.routed_rows());
  return routing.group().guard(
      [&] { return make_stream_order(exec, modalities, offsets, std::move(old)); });
}

}  // namespace knapformer
