// The kernels of waterfill for whole super-groups (docs/codecs/waterfill.md).
#pragma once

#include <cstddef>

#include "codec/isa.h"
#include "codec/super_group_kernels.h"

namespace nf {

inline constexpr unsigned kWaterfillMinWidth = 2;
inline constexpr unsigned kWaterfillMaxWidth = 10;

const MessageKernels& waterfill_reference();
// Precondition: isa is one of available_isas() other than kScalar.
const MessageKernels& waterfill_simd(Isa isa);

// The grid of a width.
struct WaterfillGrid {
  float centre = 0;  // 2^(width - 1) - 2, an even number; subtracted from codes
  float step = 0;    // of a group of scale 1: slightly more than 2 / (2^width - 1)

  constexpr WaterfillGrid() = default;
  constexpr explicit WaterfillGrid(unsigned width)
      : centre(static_cast<float>((1u << (width - 1)) - 2)),
        step(kMargin * 2.0f / static_cast<float>((1u << width) - 1)) {}

 private:
  // Keeps every rounded position within the range of codes, so that nothing is clamped.
  static constexpr float kMargin = 1.0f + 0x1p-13f;
};

// The number of values that share a scale. Two groups are one pack of codes and one byte of scales.
inline constexpr std::size_t kWaterfillGroup = 16;
// A scale is 0 or 5 to 19 units, in four bits: the peak of most groups is at least a quarter of the
// peak of their super-group.
inline constexpr unsigned kMaxScale = 19;
inline constexpr unsigned kMinScale = 5;
inline constexpr float kPeakToScaleUnit = 1.0f / 19.0f;

constexpr unsigned scale_to_code(unsigned scale) { return scale == 0 ? 0 : scale - 4; }
constexpr unsigned code_to_scale(unsigned code) { return code == 0 ? 0 : code + 4; }

// A dither in (1, 2) consists of these bits and a 16-bit draw in bits 7 to 22.
inline constexpr std::uint32_t kDitherBits = 0x3f800040u;  // 1 + 2^-17

}  // namespace nf
