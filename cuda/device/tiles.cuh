// What one thread block works on where all blocks of a codec are alike: consecutive blocks of one
// piece. Every piece has as many places in the grid as it may need, and at least one, so that no
// table of tiles is made; some thread blocks find that theirs is empty.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/codec/device_codec.h"

namespace nf::device {

// Thread blocks for all tiles of `tile_blocks` blocks.
inline unsigned tiles_of(const cuda::Batch& batch, std::uint32_t tile_blocks) {
  return batch.blocks / tile_blocks + batch.piece_count;
}

struct Tile {
  std::uint32_t index = 0;  // of the piece
  std::uint32_t first = 0;  // block in the piece; beyond its last one where the tile is empty
  cuda::DevicePiece piece;
};

// The tile of this thread block. Piece p has the places from its first_block / tile_blocks + p on.
__device__ inline Tile this_tile(const cuda::Batch& batch, std::uint32_t tile_blocks) {
  std::uint32_t low = 0;
  std::uint32_t high = batch.piece_count;
  std::uint32_t first_place = 0;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    const std::uint32_t place = batch.pieces[middle].first_block / tile_blocks + middle;
    if (place <= blockIdx.x) {
      low = middle;
      first_place = place;
    } else {
      high = middle;
    }
  }
  return {low, (blockIdx.x - first_place) * tile_blocks, batch.pieces[low]};
}

// Whether this thread block has the last place, which belongs to the last piece.
__device__ inline bool is_last_tile() { return blockIdx.x + 1 == gridDim.x; }

// Clears what lies behind `end` in a message.
__device__ inline void clear_behind(const cuda::DeviceMessage& message, std::size_t end) {
  for (std::size_t i = end + threadIdx.x; i < message.size; i += blockDim.x) {
    message.bytes[i] = std::byte{0};
  }
}

// Messages of one layout that are added to values.
struct Incoming {
  const std::byte* bytes[cuda::DeviceCodec::kMostFolded] = {};
  std::uint32_t count = 0;
  std::uint32_t contributions = 0;  // of each
  const std::uint64_t* piece_at = nullptr;
  const cuda::SuperGroupPlace* places = nullptr;
};

// Precondition: at most kMostFolded.
inline Incoming incoming(std::span<const cuda::ConstDeviceMessage> messages) {
  Incoming in;
  for (const cuda::ConstDeviceMessage& message : messages) in.bytes[in.count++] = message.bytes;
  if (in.count > 0) {
    in.contributions = messages[0].origin.contributions;
    in.piece_at = messages[0].piece_at;
    in.places = messages[0].places;
  }
  return in;
}

}  // namespace nf::device
