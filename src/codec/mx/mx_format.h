// The element formats of OCP Microscaling and the scales of their blocks (docs/codecs/mxfp.md).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace nf {

inline constexpr std::size_t kMxBlock = 32;

// An element format: sign, exponent and mantissa from the top bit down. There are no infinities.
struct MxFormat {
  unsigned exponent_bits = 0;
  unsigned mantissa_bits = 0;
  bool has_nan = false;  // all bits below the sign are ones

  constexpr unsigned width() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int max_exponent() const { return (1 << exponent_bits) - 1 - bias(); }
  constexpr std::uint32_t sign() const { return 1u << (width() - 1); }
  constexpr std::uint32_t max_code() const { return sign() - (has_nan ? 2 : 1); }
};

inline constexpr MxFormat kE4m3{.exponent_bits = 4, .mantissa_bits = 3, .has_nan = true};
inline constexpr MxFormat kE3m2{.exponent_bits = 3, .mantissa_bits = 2};
inline constexpr MxFormat kE2m1{.exponent_bits = 2, .mantissa_bits = 1};

// The number of bits by which a sum of `ranks` equal values grows.
constexpr unsigned growth_of(std::uint32_t ranks) {
  return static_cast<unsigned>(std::bit_width(ranks - 1));
}

// Blocks whose peak is below 2^-100 are sent as zeros, so that no arithmetic meets denormal
// numbers.
inline constexpr unsigned kMxMinExponent = 27;
// A block with a peak of 2^126 or more is poisoned: it decodes to NaN. The limit is lower for sums
// of many ranks.
inline constexpr unsigned kMxMaxExponent = 252;

// Consecutive blocks of a slice, the input of the kernels.
struct MxBlocks {
  std::size_t count = 0;
  const std::byte* exponents = nullptr;  // the combined statistics, from the first one on
  unsigned headroom = 0;
  unsigned max_exponent = kMxMaxExponent;
  float stretch = 1;  // a factor of all scales; 1 except for mx_published()

  constexpr MxBlocks(std::size_t blocks, const std::byte* statistics, unsigned headroom_bits,
                     std::uint32_t ranks, float stretch_factor = 1)
      : count(blocks),
        exponents(statistics),
        headroom(headroom_bits),
        max_exponent(kMxMaxExponent - std::max(headroom_bits, growth_of(ranks))),
        stretch(stretch_factor) {}

  unsigned exponent_of(std::size_t block) const {
    return std::to_integer<unsigned>(exponents[block]);
  }
  bool is_zero(unsigned exponent) const { return exponent < kMxMinExponent; }
  bool is_poisoned(unsigned exponent) const { return exponent > max_exponent; }
  bool has_codes(unsigned exponent) const { return !is_zero(exponent) && !is_poisoned(exponent); }

  // The FP32 exponent field of 2^k, a block's scale without stretch. Neither the scale nor its
  // reciprocal is a denormal number.
  unsigned scale_field(unsigned exponent, const MxFormat& format) const {
    return exponent + headroom - static_cast<unsigned>(format.max_exponent());
  }
};

}  // namespace nf
