// The wire format of g_binary and g_ternary (docs/codecs/g_binary.md, docs/codecs/g_ternary.md).
//
// Every value has a digit: 0 or 1 in g_binary; 0, 1 or 2 in g_ternary. The code of an element in a
// message of k contributions is the sum of its k digits, so messages are added by adding codes.
// With +majority, the finished sum becomes a digit again.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/random.h"
#include "codec/codes.h"

namespace nf {

// The number of values that share a scale. As FP32 they fit in a first-level cache for a second
// pass.
inline constexpr std::size_t kSignBlock = 5120;

// The digits of one g_ternary contribution: five per byte. Byte j of a unit contains elements j,
// j + 32, ...
inline constexpr std::size_t kTritsPerByte = 5;
inline constexpr std::size_t kTritUnitBytes = 32;
inline constexpr std::size_t kTritUnit = kTritsPerByte * kTritUnitBytes;
inline constexpr std::uint32_t kPowersOf3[kTritsPerByte] = {1, 3, 9, 27, 81};
inline constexpr std::uint32_t kMaxTritByte = 242;  // 3^5 - 1
inline constexpr std::uint32_t kClosedTrit = 1;

static_assert(kSignBlock % kTritUnit == 0 && kSignBlock % kDrawBlock == 0);
static_assert(kSignBlock % kPack == 0 && kTritUnitBytes == kPack);

inline constexpr std::size_t kSignPacks = kSignBlock / kPack;
inline constexpr std::size_t kTritUnits = kSignBlock / kTritUnit;

// A message consists of a 4-byte scale per block, zeros up to a multiple of 16 bytes, and the
// codes.
constexpr std::size_t sign_blocks_of(std::size_t count) {
  return (count + kSignBlock - 1) / kSignBlock;
}
constexpr std::size_t sign_scale_bytes(std::size_t count) { return 4 * sign_blocks_of(count); }
constexpr std::size_t sign_codes_at(std::size_t count) {
  return (sign_scale_bytes(count) + 15) / 16 * 16;
}

// All non-finite scales become this NaN.
inline constexpr std::uint32_t kPoisonScaleBits = 0x7fc00000u;

inline float poison_unless_finite(float scale) {
  return std::isfinite(scale) ? scale : std::bit_cast<float>(kPoisonScaleBits);
}

// The layout and meaning of the codes of a message: the value of code c is
// (step() * c - contributions) times the mean scale.
struct SignFormat {
  std::uint32_t max_digit = 1;  // g_binary 1, g_ternary 2
  std::uint32_t contributions = 1;
  bool voted = false;  // the complete sum of g_binary+majority: a code is the majority digit

  constexpr std::uint64_t max_code() const {
    return voted ? 1 : std::uint64_t{max_digit} * contributions;
  }
  // Does not use std::bit_width, because nvcc evaluates it to 0 for 64 bits in device code.
  constexpr unsigned width() const {
    unsigned bits = 0;
    for (std::uint64_t rest = max_code(); rest != 0; rest /= 2) ++bits;
    return bits;
  }
  constexpr bool has_trits() const { return max_digit == 2 && contributions == 1; }
  constexpr float step() const {
    if (voted) return 2.0f * static_cast<float>(contributions);
    return max_digit == 1 ? 2.0f : 1.0f;
  }

  constexpr std::size_t code_bytes(std::size_t count) const {
    if (has_trits()) return (count + kTritUnit - 1) / kTritUnit * kTritUnitBytes;
    return packs_of(count) * pack_bytes(width());
  }
};

}  // namespace nf
