// Bit-sliced counters: bit e of plane k is bit k of the counter of lane e. XOR, AND and OR of whole
// lines add one digit to each of 512 counters.
#pragma once

#include <cstddef>
#include <span>

#include "cxl/line.h"

namespace nf::cxl {

// The lanes that add 1 and the lanes that add 2. No lane is set in both.
struct Digits {
  Line ones;
  Line twos;
};

// Adds a digit to every lane. Returns the lanes whose counter wrapped; none if there are enough
// planes.
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

// Whether add() would wrap a counter: a carry out of plane 0 propagates through all other planes.
inline bool would_wrap(const Digits& digits, std::span<const Line> planes) {
  std::uint64_t wrapped = 0;
  for (std::size_t i = 0; i < kLineWords; ++i) {
    std::uint64_t carry = (planes[0].words[i] & digits.ones.words[i]) | digits.twos.words[i];
    for (const Line& plane : planes.subspan(1)) carry &= plane.words[i];
    wrapped |= carry;
  }
  return wrapped != 0;
}

}  // namespace nf::cxl
