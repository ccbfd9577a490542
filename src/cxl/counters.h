// Bit-sliced counters: bit e of plane k is bit k of the counter of lane e, so that 512 counters
// take a digit each by XOR, AND and OR of whole lines.
#pragma once

#include <cstddef>
#include <span>

#include "cxl/line.h"

namespace nf::cxl {

// Which lanes add 1, and which 2. No lane is in both.
struct Digits {
  Line ones;
  Line twos;
};

// Adds to all lanes. Returns the lanes whose counter has wrapped; with enough planes, none.
inline Line add(const Digits& digits, std::span<Line> planes) {
  Line carry = digits.ones;
  for (std::size_t k = 0; k < planes.size(); ++k) {
    for (std::size_t i = 0; i < kLineWords; ++i) {
      const std::uint64_t old = planes[k].words[i];
      planes[k].words[i] = old ^ carry.words[i];
      carry.words[i] &= old;
      if (k == 0) carry.words[i] |= digits.twos.words[i];
    }
  }
  return carry;
}

}  // namespace nf::cxl
