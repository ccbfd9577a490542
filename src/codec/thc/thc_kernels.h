// The loops of thc over blocks of one power-of-two size (docs/codecs/thc.md).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "codec/isa.h"

namespace nf {

inline constexpr unsigned kThcWidth = 4;
inline constexpr std::uint32_t kThcTop = (1u << kThcWidth) - 1;  // the greatest code of one rank
inline constexpr float kThcCentre = 0.5f * static_cast<float>(kThcTop);
// A draw of 16 bits becomes a dither in (1, 2): these bits, with the draw in bits 7 to 22. Its
// mean, 1 1/2, takes the place of as many levels of the centre.
inline constexpr std::uint32_t kThcDitherBits = 0x3f800040u;  // 1 + 2^-17
inline constexpr float kThcBelow = kThcCentre - 1.5f;

// Values below count as zero, and so do norms: no arithmetic then meets a denormal number.
inline constexpr float kThcLeast = 0x1p-60f;
inline constexpr std::uint16_t kThcLeastNormBits = 0x2180;  // the same in BF16
// No sum of squares that is finite has a greater norm: 2^64.
inline constexpr std::uint16_t kThcGreatestNormBits = 0x5f80;

// Blocks of other norms have codes of zero; those of a greater norm, NaN above all, decode to NaN.
constexpr bool thc_is_zero(std::uint16_t norm) { return norm < kThcLeastNormBits; }
constexpr bool thc_is_poisoned(std::uint16_t norm) { return norm > kThcGreatestNormBits; }
constexpr bool thc_has_codes(std::uint16_t norm) {
  return !thc_is_zero(norm) && !thc_is_poisoned(norm);
}

// The codes of a message: 0 to `top`. Half of it, which need not be a code, means zero.
struct ThcCodes {
  std::uint32_t top = kThcTop;

  constexpr unsigned width() const { return static_cast<unsigned>(std::bit_width(top)); }
  constexpr float centre() const { return 0.5f * static_cast<float>(top); }
};

// Those of a sum of `contributions` ranks in at most `most_width` bits. A sum that needs more
// saturates: its top is the greatest of the same parity that fits, so that codes stay whole numbers
// about the centre.
constexpr ThcCodes thc_codes(std::uint32_t contributions, unsigned most_width) {
  const std::uint64_t exact = std::uint64_t{kThcTop} * contributions;
  const std::uint64_t most = (std::uint64_t{1} << most_width) - 1;
  return {static_cast<std::uint32_t>(exact <= most ? exact : most - (exact + 1) % 2)};
}

// By how much two codes together exceed the code of their sum before it saturates. 0 where it
// cannot.
constexpr std::uint32_t thc_excess(ThcCodes first, ThcCodes second, ThcCodes sum) {
  return (first.top + second.top - sum.top) / 2;
}

// Bytes and what they mean.
template <typename Byte>
struct ThcWire {
  ThcCodes codes;
  Byte* bytes = nullptr;
};
using ThcIn = ThcWire<const std::byte>;
using ThcOut = ThcWire<std::byte>;

// Consecutive blocks of a slice.
struct ThcBlocks {
  std::size_t count = 0;
  std::size_t size = 0;              // values in a block, a power of two, at least 32
  std::uint64_t first = 0;           // element of the parameter at which the first one starts
  const std::byte* norms = nullptr;  // the combined statistics of the first one
  float clip = 0;
  DrawStream rotation;

  std::size_t groups() const { return size / 32; }
  // Codes of a value h of the transform: h * to_codes(norm) + kThcCentre.
  float to_codes(float norm) const { return kThcCentre / clip / norm; }
  // What a step of a code means, the factor 1 / size of the inverse transform included.
  float step(float norm) const {
    return clip / kThcCentre * norm * (1.0f / static_cast<float>(size));
  }
};

struct ThcKernels {
  // The statistics of `blocks` blocks of `size` values: a norm in BF16 each.
  void (*norms)(const float* values, std::size_t blocks, std::size_t size, std::byte* out);
  void (*encode)(const ThcBlocks& blocks, const DrawStream& rounding, const float* values,
                 std::byte* wire);
  // The greatest code of `groups` groups.
  std::uint32_t (*greatest_code)(const std::byte* wire, std::size_t groups, unsigned width);
  void (*decode)(const ThcBlocks& blocks, ThcIn wire, float* values);
  void (*decode_add)(const ThcBlocks& blocks, ThcIn wire, float* values);
  void (*decode_add_encode)(const ThcBlocks& blocks, const DrawStream& rounding, ThcIn wire,
                            const float* values, ThcOut out);
  void (*merge)(std::size_t groups, ThcIn first, ThcIn second, ThcOut out);
};

const ThcKernels& thc_reference();
// Precondition: isa is one of available_isas() other than kScalar.
const ThcKernels& thc_simd(Isa isa);

}  // namespace nf
