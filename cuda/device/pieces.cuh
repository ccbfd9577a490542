// Finds the piece of a block.
#pragma once

#include <cstdint>

#include "cuda/codec/device_codec.h"

namespace nf::device {

// Index of the piece that contains `block`. An empty piece contains none: the next piece starts at
// the same block. Precondition: block < batch.blocks.
__device__ __forceinline__ std::uint32_t piece_of(const cuda::DevicePiece* pieces,
                                                  std::uint32_t piece_count, std::uint32_t block) {
  std::uint32_t low = 0;
  std::uint32_t high = piece_count;  // first_block of `low` <= block < first_block of `high`
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    if (pieces[middle].first_block <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace nf::device
