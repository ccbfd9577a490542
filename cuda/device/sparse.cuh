// Blocks of the sparse codecs on a device (docs/codecs/topkc.md, docs/codecs/omnireduce.md).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/codec/sparse_plan.h"
#include "cuda/device/pieces.cuh"

namespace nf::device {

using cuda::SparseShape;

inline constexpr std::uint32_t kSentWidth = 16;
inline constexpr std::uint32_t kSentBytes = 2;  // of a value

// A block of a sparse codec.
struct SparseBlock {
  const cuda::DevicePiece* piece = nullptr;
  std::uint32_t index = 0;  // in the piece
  std::uint32_t first = 0;  // its first value in the piece
  std::uint32_t held = 0;   // values; fewer than a whole block only at the end of a piece

  __device__ std::uint32_t bytes() const { return held * kSentBytes; }  // if it is sent

  __device__ std::uint32_t key(const SparseShape& shape) const {
    return shape.key_bytes == 1 ? reinterpret_cast<const std::uint8_t*>(piece->statistics)[index]
                                : reinterpret_cast<const std::uint16_t*>(piece->statistics)[index];
  }
};

// Precondition: one of the pieces contains `block`.
__device__ inline SparseBlock sparse_block(const SparseShape& shape,
                                           const cuda::DevicePiece* pieces,
                                           std::uint32_t piece_count, std::uint32_t block) {
  const cuda::DevicePiece* piece = pieces + piece_of(pieces, piece_count, block);
  const std::uint32_t index = block - piece->first_block;
  const std::uint32_t first = index * shape.block;
  return {piece, index, first, min(shape.block, piece->count - first)};
}

}  // namespace nf::device
