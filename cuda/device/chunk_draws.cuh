// The draws of eight consecutive elements, the first a multiple of eight: the same halves of eight
// consecutive words.
#pragma once

#include <cstdint>

#include "cuda/device/codes.cuh"
#include "cuda/device/draws.cuh"

namespace nf::device {

struct ChunkDraws {
  DrawKey key;  // advanced to the first word of the chunk
  bool is_upper;

  __device__ ChunkDraws(DrawKey block, std::uint64_t element)
      : key(block), is_upper(element % kPack >= kPack / 2) {
    const auto e = static_cast<std::uint32_t>(element % kDrawBlock);
    key.start += (e / kPack * (kPack / 2) + e % (kPack / 2)) * kWordStride;
  }

  __device__ std::uint32_t word(unsigned i) const { return draw_word(key, i); }
  __device__ std::uint32_t draw(unsigned i) const {
    return is_upper ? word(i) >> 16 : word(i) & 0xffff;
  }
  // The top bit of the draw, as the sign of a float.
  __device__ std::uint32_t sign(unsigned i) const {
    return (is_upper ? word(i) : word(i) << 16) & 0x80000000u;
  }
};

}  // namespace nf::device
