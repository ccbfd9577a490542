// The kernels of thc for blocks of one power-of-two size (docs/codecs/thc.md).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "codec/isa.h"

namespace nf {

inline constexpr unsigned kThcWidth = 4;
inline constexpr std::uint32_t kThcTop = (1u << kThcWidth) - 1;  // the largest code of one rank
inline constexpr float kThcCentre = 0.5f * static_cast<float>(kThcTop);
// A dither in (1, 2) consists of these bits and a 16-bit draw in bits 7 to 22. Its mean, 1.5, is
// subtracted from the centre.
inline constexpr std::uint32_t kThcDitherBits = 0x3f800040u;  // 1 + 2^-17
inline constexpr float kThcBelow = kThcCentre - 1.5f;

// Values and norms below this count as zero, so that no arithmetic meets denormal numbers.
inline constexpr float kThcMin = 0x1p-60f;
inline constexpr std::uint16_t kThcMinNormBits = 0x2180;  // the same in BF16
// 2^64, the largest norm of a finite sum of squares.
inline constexpr std::uint16_t kThcMaxNormBits = 0x5f80;

// Blocks of smaller norms decode to zero, blocks of larger norms and NaN decode to NaN. The codes
// of both are zero.
constexpr bool thc_is_zero(std::uint16_t norm) { return norm < kThcMinNormBits; }
constexpr bool thc_is_poisoned(std::uint16_t norm) { return norm > kThcMaxNormBits; }
constexpr bool thc_has_codes(std::uint16_t norm) {
  return !thc_is_zero(norm) && !thc_is_poisoned(norm);
}

// The codes of a message: 0 to `top`. The centre top / 2, which may not be an integer, means zero.
struct ThcCodes {
  std::uint32_t top = kThcTop;

  constexpr unsigned width() const { return static_cast<unsigned>(std::bit_width(top)); }
  constexpr float centre() const { return 0.5f * static_cast<float>(top); }
};

// The codes of a sum of `contributions` ranks in at most `max_width` bits. A sum that needs more
// bits saturates: its top is the largest number of the same parity that fits, so that the distance
// between codes and centre does not change.
constexpr ThcCodes thc_codes(std::uint32_t contributions, unsigned max_width) {
  const std::uint64_t exact = std::uint64_t{kThcTop} * contributions;
  const std::uint64_t max = (std::uint64_t{1} << max_width) - 1;
  return {static_cast<std::uint32_t>(exact <= max ? exact : max - (exact + 1) % 2)};
}

// The difference between the sum of two codes and the code of the sum before saturation. 0 if the
// sum does not saturate.
constexpr std::uint32_t thc_excess(ThcCodes first, ThcCodes second, ThcCodes sum) {
  return (first.top + second.top - sum.top) / 2;
}

// Wire bytes and the codes in them.
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
  const std::byte* norms = nullptr;  // the combined statistics, from the first one on
  float clip = 0;
  DrawStream rotation;

  std::size_t packs() const { return size / 32; }
  // The code of a transformed value h is h * to_codes(norm) + kThcCentre.
  float to_codes(float norm) const { return kThcCentre / clip / norm; }
  // The value of a step between codes, including the factor 1 / size of the inverse transform.
  float step(float norm) const {
    return clip / kThcCentre * norm * (1.0f / static_cast<float>(size));
  }
};

struct ThcKernels {
  // The statistics of `blocks` blocks of `size` values: a BF16 norm per block.
  void (*norms)(const float* values, std::size_t blocks, std::size_t size, std::byte* out);
  void (*encode)(const ThcBlocks& blocks, const DrawStream& rounding, const float* values,
                 std::byte* wire);
  // The largest code of `packs` packs.
  std::uint32_t (*max_code)(const std::byte* wire, std::size_t packs, unsigned width);
  void (*decode)(const ThcBlocks& blocks, ThcIn wire, float* values);
  void (*decode_add)(const ThcBlocks& blocks, ThcIn wire, float* values);
  void (*decode_add_encode)(const ThcBlocks& blocks, const DrawStream& rounding, ThcIn wire,
                            const float* values, ThcOut out);
  void (*merge)(std::size_t packs, ThcIn first, ThcIn second, ThcOut out);
};

const ThcKernels& thc_reference();
// Precondition: isa is one of available_isas() other than kScalar.
const ThcKernels& thc_simd(Isa isa);

}  // namespace nf
