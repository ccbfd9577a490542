// Units of a root mean square: scales values by powers of two that follow from BF16 squares, and
// updates the squares. All forms give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/isa.h"

namespace nf {

// The number of running sums in `sum`: element i is added to sum i % kRmsLanes, and in the end the
// sums are folded in halves (i + 8 to i, then i + 4, ...).
inline constexpr std::size_t kRmsLanes = 16;

// Bounds of a square: factors are 2^-60 to 2^60.
inline constexpr float kLeastSquare = 0x1p-120F;
inline constexpr float kMostSquare = 0x1p120F;

struct RmsUnits {
  float (*sum)(const std::uint16_t* squares, std::size_t count);
  // Multiplies each value by the power of two nearest, by ratio, to 1 / sqrt(square), or divides by
  // it. A square below `floor`, which is within the bounds, counts as `floor`.
  void (*multiply)(const std::uint16_t* squares, float floor, std::size_t count, float* values);
  void (*divide)(const std::uint16_t* squares, float floor, std::size_t count, float* values);
  // to = from + ((values * factor)^2 - from) * share, at most kMostSquare. `values` are finite.
  void (*update)(const float* values, float factor, float share, const std::uint16_t* from,
                 std::size_t count, std::uint16_t* to);
};

const RmsUnits& rms_units(Isa isa);

}  // namespace nf
