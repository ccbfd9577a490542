// The draws of base/random.h on a device: the same functions, compiled for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/random.h"

namespace nf::device {

// The part of the key that all streams of a step share.
constexpr std::uint64_t step_key(std::uint64_t seed, std::uint64_t step) {
  return mix64(mix64(seed + kGolden64) ^ step);
}

// The key of a block in DrawStream(seed, step, parameter, encoder, purpose).
__device__ inline DrawKey block_key(std::uint64_t step_key, std::uint64_t parameter,
                                    std::uint32_t encoder, DrawPurpose purpose,
                                    std::uint64_t block) {
  DrawStream stream(0, 0, 0, 0, purpose);
  stream.key =
      mix64(mix64(step_key ^ parameter) ^ (static_cast<std::uint64_t>(purpose) << 32 | encoder));
  return DrawKey(stream, block);
}

// The 16-bit draw of one element of a parameter.
__device__ inline std::uint32_t draw_of(const DrawStream& stream, std::uint64_t element) {
  const DrawKey key(stream, element / kDrawBlock);
  return draw16(key, static_cast<std::uint32_t>(element % kDrawBlock));
}

}  // namespace nf::device
