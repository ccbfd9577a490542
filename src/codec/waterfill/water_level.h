// Chooses the widths of super-groups: each gets the width b that minimises
//
//   weight * energy * error(b) + level * bits(b),    error(b) = 1 / (2^b - 1)^2,
//
// where the one level, common to all, is the lowest whose widths fit the budget. Errors fall about
// fourfold a bit, so the best width is a step function of log2(weight * energy): one histogram of
// that logarithm gives the bits of any level without looking at the super-groups again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nf {

struct WidthDemand {
  float need = 0;           // weight * energy
  std::uint8_t groups = 0;  // groups of 32 values: a bit of width costs 4 bytes each
  std::uint8_t width = 0;   // out
};

// Fills in the widths, from `least` to `most`, so that their codes take at most `code_bytes`. All
// get at least `least`, even if that is more.
void fill_to_level(std::span<WidthDemand> demands, unsigned least, unsigned most,
                   std::size_t code_bytes);

}  // namespace nf
