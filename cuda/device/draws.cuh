// The draws of base/random.h on a device: the same functions, compiled for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/random.h"

namespace nf::device {

// The 16 bits of one element of a parameter.
__device__ inline std::uint32_t draw_of(const DrawStream& stream, std::uint64_t element) {
  const DrawKey key(stream, element / kDrawBlock);
  return draw16(key, static_cast<std::uint32_t>(element % kDrawBlock));
}

}  // namespace nf::device
