// The element formats of OCP Microscaling and the scales of their blocks (docs/codecs/mxfp.md).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace nf {

inline constexpr std::size_t kMxBlock = 32;

// Sign, exponent and mantissa from the top bit down. No format has infinities.
struct MxFormat {
  unsigned exponent_bits = 0;
  unsigned mantissa_bits = 0;
  bool has_nan = false;  // all ones below the sign

  constexpr unsigned width() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int greatest_exponent() const { return (1 << exponent_bits) - 1 - bias(); }
  constexpr std::uint32_t sign() const { return 1u << (width() - 1); }
  constexpr std::uint32_t greatest_code() const { return sign() - (has_nan ? 2 : 1); }
};

inline constexpr MxFormat kE4m3{.exponent_bits = 4, .mantissa_bits = 3, .has_nan = true};
inline constexpr MxFormat kE3m2{.exponent_bits = 3, .mantissa_bits = 2};
inline constexpr MxFormat kE2m1{.exponent_bits = 2, .mantissa_bits = 1};

// The bits by which `ranks` equal values can grow when they are added.
constexpr unsigned growth_of(std::uint32_t ranks) {
  return static_cast<unsigned>(std::bit_width(ranks - 1));
}

// Blocks whose peak lies below 2^-100 are sent as zeros: all other arithmetic then stays clear of
// denormal numbers.
inline constexpr unsigned kMxLeastExponent = 27;
// Peaks from 2^126 on poison their block: it decodes to NaN. Fewer where many ranks add up.
inline constexpr unsigned kMxGreatestExponent = 252;

// Consecutive blocks of a slice, as kernels see them.
struct MxBlocks {
  std::size_t count = 0;
  const std::byte* exponents = nullptr;  // the combined statistics of the first one
  unsigned headroom = 0;
  unsigned greatest_exponent = kMxGreatestExponent;
  float stretch = 1;  // of every scale; other than 1 only for mx_published()

  constexpr MxBlocks(std::size_t blocks, const std::byte* statistics, unsigned room,
                     std::uint32_t ranks, float stretched = 1)
      : count(blocks),
        exponents(statistics),
        headroom(room),
        greatest_exponent(kMxGreatestExponent - std::max(room, growth_of(ranks))),
        stretch(stretched) {}

  unsigned exponent_of(std::size_t block) const {
    return std::to_integer<unsigned>(exponents[block]);
  }
  bool is_zero(unsigned exponent) const { return exponent < kMxLeastExponent; }
  bool is_poisoned(unsigned exponent) const { return exponent > greatest_exponent; }
  bool has_codes(unsigned exponent) const { return !is_zero(exponent) && !is_poisoned(exponent); }

  // The FP32 exponent field of 2^k, a block's scale before any stretch; never that of a denormal
  // number, nor is that of its reciprocal.
  unsigned scale_field(unsigned exponent, const MxFormat& format) const {
    return exponent + headroom - static_cast<unsigned>(format.greatest_exponent());
  }
};

}  // namespace nf
