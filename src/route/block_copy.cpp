// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "route/block_copy.hpp"

#include <algorithm>

#include "comm/stream_copy.hpp"

namespace knapformer {
namespace block_copy {

/// The unit of copying. Made of bytes, which may alias anything.
template <std::size_t kBytes>
struct alignas(kBytes) Word {
  std::byte bytes[kBytes];
};

struct Job {
  std::int64_t first_tile = 0;
  std::int64_t tile_count = 0;
  std::int64_t head_bytes = 0;
  bool past_caches = false;
  std::byte* tokens = nullptr;
  std::byte* blocks = nullptr;
};

Job make_job(const BlockTiles& tiles, BlockPlace place, std::int64_t head_bytes, std::byte* tokens,
             std::byte* blocks) {
  const bool local = place == BlockPlace::kLocal;
  const auto all = static_cast<std::int64_t>(tiles.tiles.size());
  const std::int64_t rows = local ? tiles.local_rows : tiles.remote_rows;
  return {local ? 0 : tiles.local,
          local ? tiles.local : all - tiles.local,
          head_bytes,
          rows * head_bytes >= kManyBytes,
          tokens,
          blocks};
}

template <std::size_t kBytes, bool kPack>
void copy_words(const Device& exec, const BlockTiles& all, const Job& job) {
  using Unit = Word<kBytes>;
  using Policy = Kokkos::TeamPolicy<Device>;
  const auto tiles = all.tiles;
  const std::int64_t all_heads = all.all_heads;
  const std::int64_t first_tile = job.first_tile;
  const bool past_caches = job.past_caches;
  const auto words =
      job.head_bytes / static_cast<std::int64_t>(kBytes);  // of one head of one token
  auto* tokens = reinterpret_cast<Unit*>(job.tokens);
  auto* blocks = reinterpret_cast<Unit*>(job.blocks);
  const int vector_length = std::min(32, Policy::vector_length_max());
  Kokkos::parallel_for(
      "KnapFormer::copy_blocks",
      Policy(exec, static_cast<int>(job.tile_count), Kokkos::AUTO, vector_length),
      KOKKOS_LAMBDA(const Policy::member_type& team) {
        const BlockTile tile = tiles(first_tile + team.league_rank());
        const std::int64_t width = tile.heads * words;
        const std::int64_t stride = all_heads * words;
        Unit* in_tokens = tokens + tile.first_token * stride + tile.first_head * words;
        Unit* in_block = blocks + tile.block_row * words;
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, tile.tokens), [&](const std::int64_t t) {
          Unit* token = in_tokens + t * stride;
          Unit* block = in_block + t * width;
          const Unit* from = kPack ? token : block;
          Unit* to = kPack ? block : token;
          if (past_caches) {
            KOKKOS_IF_ON_HOST(
                (stream_copy(to, from, static_cast<std::size_t>(width) * sizeof(Unit)); return;))
          }
          Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, width),
                               [&](const std::int64_t i) { to[i] = from[i]; });
        });
      });
}

/// Copies in the largest words that fit the rows and lie right in memory.
template <bool kPack>
void copy(const Device& exec, const BlockTiles& tiles, const Job& job) {
  if (job.tile_count == 0 || job.head_bytes == 0) return;
  const auto bits = static_cast<std::uintptr_t>(job.head_bytes) |
                    reinterpret_cast<std::uintptr_t>(job.tokens) |
                    reinterpret_cast<std::uintptr_t>(job.blocks);
  if (bits % 16 == 0) return copy_words<16, kPack>(exec, tiles, job);
  if (bits % 8 == 0) return copy_words<8, kPack>(exec, tiles, job);
  if (bits % 4 == 0) return copy_words<4, kPack>(exec, tiles, job);
  if (bits % 2 == 0) return copy_words<2, kPack>(exec, tiles, job);
  copy_words<1, kPack>(exec, tiles, job);
}

}  // namespace block_copy

void pack_blocks(const Device& exec, const BlockTiles& tiles, BlockPlace place,
                 std::int64_t head_bytes, const std::byte* tokens, std::byte* blocks) {
  auto job = block_copy::make_job(tiles, place, head_bytes, const_cast<std::byte*>(tokens), blocks);
  if (place == BlockPlace::kRemote) job.past_caches = false;  // they are sent at once
  block_copy::copy<true>(exec, tiles, job);
}

void unpack_blocks(const Device& exec, const BlockTiles& tiles, BlockPlace place,
                   std::int64_t head_bytes, const std::byte* blocks, std::byte* tokens) {
  block_copy::copy<false>(
      exec, tiles,
      block_copy::make_job(tiles, place, head_bytes, tokens, const_cast<std::byte*>(blocks)));
}

}  // namespace knapformer
