// Shared by the vector forms of g_binary and g_ternary: reading and writing packs of codes, and
// sums in the order of docs/codecs/g_binary.md.
#if defined(NF_CODEC_SIGN_COUNTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NF_CODEC_SIGN_COUNTS_INL_H_
#undef NF_CODEC_SIGN_COUNTS_INL_H_
#else
#define NF_CODEC_SIGN_COUNTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codec/codes.h"
#include "codec/sign/sign_kernels.h"
#include "codec/simd/codes-inl.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/random-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

// Counts of up to 1023 ranks (g_ternary: 511) have vector forms; wider counts use the reference.
inline constexpr unsigned kMaxVectorWidth = 10;

HWY_INLINE bool has_vector_form(const SignFormat& format) {
  return format.width() <= kMaxVectorWidth;
}

inline constexpr std::size_t kSumVectors = 16 / kLanes;

// Sixteen running sums. Vectors must be added in the order of their elements.
class RunningSums {
 public:
  HWY_INLINE RunningSums() {
    for (VF& sum : sums_) sum = hn::Zero(DF());
  }

  // The running sums of vector `v` of a pack.
  HWY_INLINE VF& at(std::size_t v) { return sums_[v % kSumVectors]; }

  HWY_INLINE float fold() const {
    alignas(64) float sums[16];
    for (std::size_t v = 0; v < kSumVectors; ++v) hn::Store(sums_[v], DF(), sums + v * kLanes);
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    return sums[0];
  }

 private:
  VF sums_[kSumVectors];
};

using Masks = hn::Mask<DF>[kPackVectors];

// Draws the signs of the undecided elements of pack `p` of block `block` of a parameter: the lowest
// bit of an element's draw. positive |= undecided & drawn.
HWY_INLINE void draw_signs(const DrawStream& draws, std::uint64_t block, std::size_t p,
                           const Masks& undecided, Masks& positive) {
  constexpr std::size_t kPacks = kDrawBlock / kPack;
  constexpr std::size_t kHalf = kPackVectors / 2;
  DrawKey key(draws, block * (kSignBlock / kDrawBlock) + p / kPacks);
  key.start += static_cast<std::uint32_t>(p % kPacks * 16) * kWordStride;
  DrawWords words(key, DrawWords::strides());
  for (std::size_t v = 0; v < kHalf; ++v) {
    const VU word = words.next();
    const auto low = hn::RebindMask(DF(), hn::TestBit(word, set_u(1)));
    const auto high = hn::RebindMask(DF(), hn::TestBit(word, set_u(1u << 16)));
    positive[v] = hn::Or(positive[v], hn::And(undecided[v], low));
    positive[v + kHalf] = hn::Or(positive[v + kHalf], hn::And(undecided[v + kHalf], high));
  }
}

// The elements of pack `p` of block `b` that are positive in the majority of the contributions.
// Ties are drawn.
HWY_INLINE void majority_of(const SignBlocks& blocks, std::size_t b, std::size_t p,
                            std::uint32_t contributions, const VU (&code)[kPackVectors],
                            Masks& positive) {
  const VI half = hn::Set(DI(), static_cast<std::int32_t>(contributions / 2));
  Masks tie;
  for (std::size_t v = 0; v < kPackVectors; ++v) {
    const VI count = hn::BitCast(DI(), code[v]);
    positive[v] = hn::RebindMask(DF(), hn::Gt(count, half));
    tie[v] = hn::RebindMask(DF(), hn::Eq(count, half));
  }
  if (contributions % 2 == 0) draw_signs(blocks.ties, blocks.first + b, p, tie, positive);
}

// Writes one bit per element and returns the end of the output. A NEON vector is less than a byte.
HWY_INLINE std::uint8_t* put_bits(const Masks& positive, std::uint8_t* to) {
  for (std::size_t v = 0; v < kPackVectors; ++v) {
    if constexpr (kLanes >= 8) {
      hn::StoreMaskBits(DF(), positive[v], to + v * kLanes / 8);
    } else {
      std::uint8_t bits[8];
      hn::StoreMaskBits(DF(), positive[v], bits);
      const std::size_t shift = v * kLanes % 8;
      std::uint8_t& byte = to[v * kLanes / 8];
      byte = static_cast<std::uint8_t>((shift == 0 ? 0 : byte) | bits[0] << shift);
    }
  }
  return to + pack_bytes(1);
}

// Reads the bits of vector `v` of a pack that put_bits() wrote to `from`.
HWY_INLINE hn::Mask<DF> get_bits(const std::uint8_t* from, std::size_t v) {
  if constexpr (kLanes >= 8) {
    return hn::LoadMaskBits(DF(), from + v * kLanes / 8);
  } else {
    const std::uint8_t bits[8] = {
        static_cast<std::uint8_t>(from[v * kLanes / 8] >> (v * kLanes % 8))};
    return hn::LoadMaskBits(DF(), bits);
  }
}

// Digit i of a byte of trits is floor(byte / 3^i) % 3: three times the 16-bit fraction of
// byte / 3^(i + 1). This reciprocal of 3^(i + 1) rounds the fraction up, which does not change the
// digit (see the static_assert).
constexpr std::uint32_t trit_reciprocal(std::size_t i) {
  const std::uint32_t divisor = 3 * kPowersOf3[i];
  return (0x10000 + divisor - 1) / divisor;
}

constexpr bool trit_reciprocals_are_exact() {
  for (std::uint32_t byte = 0; byte <= kMaxTritByte; ++byte) {
    for (std::size_t i = 0; i < kTritsPerByte; ++i) {
      const std::uint32_t fraction = byte * trit_reciprocal(i) & 0xffff;
      if (fraction * 3 >> 16 != byte / kPowersOf3[i] % 3) return false;
    }
  }
  return true;
}
static_assert(trit_reciprocals_are_exact());

// The bytes of one unit. A lane contains bytes j and j + 16 for 16-bit multiplications.
class Trits {
 public:
  HWY_INLINE explicit Trits(const std::uint8_t* unit) {
    for (std::size_t v = 0; v < kPairs; ++v) {
      pairs_[v] = hn::Or(load_bytes(unit + v * kLanes),
                         hn::ShiftLeft<16>(load_bytes(unit + 16 + v * kLanes)));
    }
  }

  // The digits of pack `i` of the unit.
  HWY_INLINE void pack(std::size_t i, VU (&digits)[kPackVectors]) const {
    const hn::Repartition<std::uint16_t, DU> d16;
    const auto reciprocal = hn::Set(d16, static_cast<std::uint16_t>(trit_reciprocal(i)));
    const auto three = hn::Set(d16, std::uint16_t{3});
    for (std::size_t v = 0; v < kPairs; ++v) {
      const auto fraction = hn::Mul(hn::BitCast(d16, pairs_[v]), reciprocal);
      const VU both = hn::BitCast(DU(), hn::MulHigh(fraction, three));
      digits[v] = hn::And(both, set_u(3));
      digits[v + kPairs] = hn::ShiftRight<16>(both);
    }
  }

 private:
  static constexpr std::size_t kPairs = kPackVectors / 2;

  VU pairs_[kPairs];
};

// The readers read the codes of consecutive packs, from pack 0 on. `Width` is
// std::integral_constant for a compile-time width, otherwise an integer.
template <class Width>
class CountReader {
 public:
  HWY_INLINE CountReader(const std::byte* codes, Width width)
      : codes_(reinterpret_cast<const std::uint8_t*>(codes)), width_(width) {}

  HWY_INLINE void read(std::size_t /*p*/, VU (&code)[kPackVectors]) {
    codes_ = unpack_codes(codes_, width_, code);
  }

 private:
  const std::uint8_t* codes_;
  [[no_unique_address]] Width width_;
};

class TritReader {
 public:
  HWY_INLINE explicit TritReader(const std::byte* codes)
      : codes_(reinterpret_cast<const std::uint8_t*>(codes)) {}

  HWY_INLINE void read(std::size_t p, VU (&code)[kPackVectors]) {
    Trits(codes_ + p / kTritsPerByte * kTritUnitBytes).pack(p % kTritsPerByte, code);
  }

 private:
  const std::uint8_t* codes_;
};

// The writers write the codes of consecutive packs, from pack 0 on.
template <class Width>
class CountWriter {
 public:
  HWY_INLINE CountWriter(std::byte* codes, Width width)
      : to_(reinterpret_cast<std::uint8_t*>(codes)), width_(width) {}

  HWY_INLINE void write(std::size_t /*p*/, const VU (&code)[kPackVectors]) {
    to_ = pack_codes(code, width_, to_);
  }

 private:
  std::uint8_t* to_;
  [[no_unique_address]] Width width_;
};

// Writes the majority vote of the contributions.
class VoteWriter {
 public:
  HWY_INLINE VoteWriter(const SignBlocks& blocks, SignOut out)
      : blocks_(blocks),
        contributions_(out.format.contributions),
        to_(reinterpret_cast<std::uint8_t*>(out.codes)) {}

  HWY_INLINE void write(std::size_t p, const VU (&code)[kPackVectors]) {
    Masks positive;
    majority_of(blocks_, p / kSignPacks, p % kSignPacks, contributions_, code, positive);
    to_ = put_bits(positive, to_);
  }

 private:
  const SignBlocks& blocks_;
  const std::uint32_t contributions_;
  std::uint8_t* to_;
};

template <unsigned kWidth>
using FixedWidth = std::integral_constant<unsigned, kWidth>;

// Calls work(FixedWidth<width>()), 1 <= width <= kMaxVectorWidth.
template <class Work>
HWY_INLINE void with_width(unsigned width, Work work) {
  switch (width) {
    case 1: work(FixedWidth<1>()); break;
    case 2: work(FixedWidth<2>()); break;
    case 3: work(FixedWidth<3>()); break;
    case 4: work(FixedWidth<4>()); break;
    case 5: work(FixedWidth<5>()); break;
    case 6: work(FixedWidth<6>()); break;
    case 7: work(FixedWidth<7>()); break;
    case 8: work(FixedWidth<8>()); break;
    case 9: work(FixedWidth<9>()); break;
    default: work(FixedWidth<kMaxVectorWidth>()); break;
  }
}

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();
#endif
