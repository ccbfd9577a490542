// The rotation of rotated (docs/codecs/rotated.md) for vectors. A super-group is an array of 256
// floats; three passes over it perform both rounds.
#if defined(NF_CODEC_ROTATED_ROTATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NF_CODEC_ROTATED_ROTATION_INL_H_
#undef NF_CODEC_ROTATED_ROTATION_INL_H_
#else
#define NF_CODEC_ROTATED_ROTATION_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "codec/codes.h"
#include "codec/rotated/rotated_kernels.h"
#include "codec/simd/hadamard-inl.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/random-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

constexpr std::size_t kPacks = kSuperGroup / kPack;

// Negates the lanes whose bit in `word` is set.
HWY_INLINE VF negate_where(VF v, std::uint32_t word) {
#if HWY_TARGET == HWY_AVX3
  const VU all = bits(v);
  return from_bits(VU{_mm512_mask_xor_epi32(all.raw, static_cast<__mmask16>(word), all.raw,
                                            set_u(0x80000000u).raw)});
#else
  const VU to_sign = hn::Sub(set_u(31), hn::Iota(DU(), 0));
  return from_bits(hn::Xor(bits(v), hn::And(hn::Shl(set_u(word), to_sign), set_u(0x80000000u))));
#endif
}

// The signs of both rounds of the rotation: a word per pack and round.
struct RotationSigns {
  alignas(64) std::uint32_t words[2 * kPacks];

  HWY_INLINE RotationSigns(DrawKey key, VU strides) {
    DrawWords draws(key, strides);
    for (std::size_t i = 0; i < 2 * kPacks; i += kLanes) hn::Store(draws.next(), DU(), words + i);
  }

  HWY_INLINE void flip(std::size_t round, std::size_t p, VF (&x)[kPackVectors]) const {
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      x[v] = negate_where(x[v], words[kPacks * round + p] >> v * kLanes);
    }
  }
};

// The stages of the bits within a pack, first half of the rotation.
HWY_INLINE void transform_up(const LaneSigns& lanes, VF (&x)[kPackVectors]) {
  transform_bit<4>(lanes, x);
  transform_bit<0>(lanes, x);
  transform_bit<1>(lanes, x);
  transform_bit<2>(lanes, x);
  transform_bit<3>(lanes, x);
}

// The same in the reverse order, second half of the rotation.
HWY_INLINE void transform_down(const LaneSigns& lanes, VF (&x)[kPackVectors]) {
  transform_bit<3>(lanes, x);
  transform_bit<2>(lanes, x);
  transform_bit<1>(lanes, x);
  transform_bit<0>(lanes, x);
  transform_bit<4>(lanes, x);
}

// All stages between packs, with the signs of the second round between those of the first and of
// the second half.
HWY_INLINE void transform_packs(const RotationSigns& signs, float* h) {
  for (std::size_t v = 0; v < kPackVectors; ++v) {
    VF x[kPacks];
    for (std::size_t p = 0; p < kPacks; ++p) x[p] = hn::Load(DF(), h + p * kPack + v * kLanes);
    butterflies(x);
    for (std::size_t p = 0; p < kPacks; ++p) {
      x[p] = negate_where(x[p], signs.words[kPacks + p] >> v * kLanes);
    }
    butterflies_down(x);
    for (std::size_t p = 0; p < kPacks; ++p) hn::Store(x[p], DF(), h + p * kPack + v * kLanes);
  }
}

// Adds terms in the order of kRotatedBits: those of a pack at a time, then all of them.
class SumOfTerms {
 public:
  // GCC compiles a defaulted constructor without the target's instructions.
  HWY_INLINE SumOfTerms() {}

  HWY_INLINE void set(std::size_t p, const VF (&terms)[kPackVectors]) {
    for (std::size_t v = 0; v < kHalf; ++v) {
      sums_[p * kHalf + v] = hn::Add(terms[v], terms[v + kHalf]);
    }
  }

  HWY_INLINE float total() {
    for (std::size_t count = kPacks * kHalf; count > 1; count /= 2) {
      for (std::size_t i = 0; i < count / 2; ++i) {
        sums_[i] = fold(sums_[2 * i + 1], sums_[2 * i]);
      }
    }
    VF last = sums_[0];
    for (std::size_t lanes = kLanes; lanes > 1; lanes /= 2) last = fold(last, last);
    return hn::GetLane(last);
  }

 private:
  static constexpr std::size_t kHalf = kPackVectors / 2;

  // Adds neighbouring lanes of both vectors.
  static HWY_INLINE VF fold(VF high, VF low) {
    return hn::Add(hn::ConcatEven(DF(), high, low), hn::ConcatOdd(DF(), high, low));
  }

  VF sums_[kPacks * kHalf];
};

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();
#endif
