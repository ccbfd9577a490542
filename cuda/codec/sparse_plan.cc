#include "cuda/codec/sparse_plan.h"

#include <algorithm>

namespace nf::cuda {

std::vector<SuperGroupOffsets> block_offsets(const Codec& codec, const Slice& slice,
                                             std::size_t start) {
  const std::size_t block = codec.granule();
  std::vector<SuperGroupOffsets> offsets;
  for (std::size_t first = 0; first < slice.count; first += block) {
    const std::uint8_t width = slice.widths[(slice.first + first) / block];
    const auto at = static_cast<std::uint32_t>(start);
    offsets.push_back({.units = at, .scales = at, .codes = at, .width = width});
    start += std::min(block, slice.count - first) * width / 8;
  }
  return offsets;
}

}  // namespace nf::cuda
