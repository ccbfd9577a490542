// The kernels of rotated for whole super-groups (docs/codecs/rotated.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "codec/isa.h"
#include "codec/super_group_kernels.h"

namespace nf {

inline constexpr unsigned kRotatedMinWidth = 1;
inline constexpr unsigned kRotatedMaxWidth = 8;

const MessageKernels& rotated_reference();
// Precondition: isa is one of available_isas() other than kScalar.
const MessageKernels& rotated_simd(Isa isa);

#include "codec/rotated/levels.inc"

// The positive levels of a width, and the thresholds between them.
constexpr std::size_t rotated_levels(unsigned width) { return std::size_t{1} << (width - 1); }
constexpr const float* rotated_levels_of(unsigned width) {
  return kRotatedLevels + rotated_levels(width) - 1;
}

// Entry i of a width, i > 0, is halfway between levels i - 1 and i; entry 0 is 0.
inline constexpr auto kRotatedThresholds = [] {
  std::array<float, std::size(kRotatedLevels)> thresholds{};
  for (unsigned width = kRotatedMinWidth; width <= kRotatedMaxWidth; ++width) {
    const std::size_t first = rotated_levels(width) - 1;
    for (std::size_t i = 1; i < rotated_levels(width); ++i) {
      thresholds[first + i] = (kRotatedLevels[first + i - 1] + kRotatedLevels[first + i]) * 0.5f;
    }
  }
  return thresholds;
}();
constexpr const float* rotated_thresholds_of(unsigned width) {
  return kRotatedThresholds.data() + rotated_levels(width) - 1;
}

// The bits of an element's number in the order in which transforms and sums combine elements: runs
// of consecutive elements in CUDA lanes and vectors of any length need few exchanges.
inline constexpr std::array<unsigned, 8> kRotatedBits = {4, 0, 1, 2, 3, 5, 6, 7};

// Words of the draws of a super-group: 8 of signs for each round of the rotation, and the rounding
// of the unit.
inline constexpr std::uint32_t kRotatedUnitWord = 16;

}  // namespace nf
