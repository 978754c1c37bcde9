// SPDX-FileCopyrightText: The KnapFormer authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <knapformer/route/rows.hpp>

namespace knapformer {

/// A block, or a part of one that makes a team's work: some tokens and heads of a token-split array
/// [tokens x all heads x d_head], which lie as [tokens x heads x d_head] on the other side.
struct BlockTile {
  std::int64_t first_token = 0;  ///< row of the token-split array
  std::int64_t tokens = 0;
  std::int64_t first_head = 0;
  std::int64_t heads = 0;
  std::int64_t block_row = 0;  ///< head row of the local or the remote buffer
};

/// Tiles [0, local) have their blocks in a head buffer of this rank, the others in a buffer whose
/// bytes travel.
struct BlockTiles {
  Kokkos::View<const BlockTile*, Device> tiles;
  std::int64_t local = 0;
  std::int64_t all_heads = 1;
  std::int64_t local_rows = 0;  ///< head rows of the tiles
  std::int64_t remote_rows = 0;
};

enum class BlockPlace { kLocal, kRemote };

/// Copies the tiles of one place from the token-split array to the buffer of blocks.
void pack_blocks(const Device& exec, const BlockTiles& tiles, BlockPlace place,
                 std::int64_t head_bytes, const std::byte* tokens, std::byte* blocks);

/// Copies them back.
void unpack_blocks(const Device& exec, const BlockTiles& tiles, BlockPlace place,
                   std::int64_t head_bytes, const std::byte* blocks, std::byte* tokens);

}  // namespace knapformer
