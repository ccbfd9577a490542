// Chooses the widths of super-groups, for waterfill and dynamiq: each gets the width b that
// minimises
//
//   weight * energy * error(b) + level * bytes(b),
//
// where the one level, common to all, is the lowest whose widths fit the budget. Errors fall about
// fourfold a bit, so the best width is a step function of log2(weight * energy): one histogram of
// that logarithm gives the bytes of any level without looking at the super-groups again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nf {

struct WidthDemand {
  float need = 0;           // weight * energy
  std::uint8_t groups = 0;  // groups of 32 values
  std::uint8_t width = 0;   // out
};

// A width, what it costs, and from where on it is worth more than the width before it: a need must
// lie so many eighths of an octave above the level.
struct Rung {
  std::uint8_t width = 0;
  int threshold = 0;            // of the first rung it means nothing
  std::uint8_t pack_bytes = 0;  // for each group
  std::uint8_t bytes = 0;       // for the super-group
};

// Fills in widths of the ladder so that they take at most `bytes`. All get at least the first one,
// even if that is more. Precondition: thresholds and costs rise from rung to rung.
void fill_to_level(std::span<WidthDemand> demands, std::span<const Rung> ladder, std::size_t bytes);

}  // namespace nf
