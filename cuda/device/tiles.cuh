// The part of a batch that one thread block processes, for codecs with equal blocks: consecutive
// blocks of one piece. Every piece has as many slots in the grid as it may need, and at least one,
// so no table of tiles is needed; the tiles of some thread blocks are empty.
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
  std::uint32_t first = 0;  // block in the piece; past its last one if the tile is empty
  cuda::DevicePiece piece;
};

// The tile of this thread block. The slots of piece p start at first_block / tile_blocks + p.
__device__ inline Tile this_tile(const cuda::Batch& batch, std::uint32_t tile_blocks) {
  std::uint32_t low = 0;
  std::uint32_t high = batch.piece_count;
  std::uint32_t first_slot = 0;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    const std::uint32_t slot = batch.pieces[middle].first_block / tile_blocks + middle;
    if (slot <= blockIdx.x) {
      low = middle;
      first_slot = slot;
    } else {
      high = middle;
    }
  }
  return {low, (blockIdx.x - first_slot) * tile_blocks, batch.pieces[low]};
}

// Whether this thread block has the last slot, which belongs to the last piece.
__device__ inline bool is_last_tile() { return blockIdx.x + 1 == gridDim.x; }

// Clears the bytes of a message from `end` on.
__device__ inline void clear_after(const cuda::DeviceMessage& message, std::size_t end) {
  for (std::size_t i = end + threadIdx.x; i < message.size; i += blockDim.x) {
    message.bytes[i] = std::byte{0};
  }
}

// Messages of one layout to add to the values.
struct Incoming {
  const std::byte* bytes[cuda::DeviceCodec::kMaxFolded] = {};
  std::uint32_t count = 0;
  std::uint32_t contributions = 0;  // of each
  const std::uint64_t* piece_at = nullptr;
  const cuda::SuperGroupOffsets* offsets = nullptr;
};

// Precondition: at most kMaxFolded messages.
inline Incoming incoming(std::span<const cuda::ConstDeviceMessage> messages) {
  Incoming in;
  for (const cuda::ConstDeviceMessage& message : messages) in.bytes[in.count++] = message.bytes;
  if (in.count > 0) {
    in.contributions = messages[0].origin.contributions;
    in.piece_at = messages[0].piece_at;
    in.offsets = messages[0].offsets;
  }
  return in;
}

}  // namespace nf::device
