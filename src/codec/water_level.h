// Chooses the widths of the super-groups of waterfill and dynamiq. Each super-group gets the width
// b that minimises
//
//   weight * energy * error(b) + level * bytes(b).
//
// The level is the same for all super-groups: the lowest whose widths fit the budget. One more bit
// divides the error by about four, so the best width is a step function of log2(weight * energy).
// A histogram of that logarithm gives the total bytes of any level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nf {

struct WidthDemand {
  float need = 0;          // weight * energy
  std::uint8_t packs = 0;  // packs of 32 values
  std::uint8_t width = 0;  // out
};

// A width and its costs. A super-group gets this width instead of the one before it if its need is
// at least `threshold` eighths of an octave above the level.
struct Rung {
  std::uint8_t width = 0;
  int threshold = 0;            // unused in the first rung
  std::uint8_t pack_bytes = 0;  // per pack
  std::uint8_t bytes = 0;       // per super-group
};

// Sets the widths of `demands` so that they take at most `bytes`. Every width is at least the first
// of the ladder, even if that exceeds `bytes`. Precondition: thresholds and costs rise from rung to
// rung.
void fill_to_level(std::span<WidthDemand> demands, std::span<const Rung> ladder, std::size_t bytes);

}  // namespace nf
