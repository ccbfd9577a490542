// The Walsh-Hadamard transform without its factor (docs/codecs/thc.md, docs/codecs/rotated.md).
// Each stage replaces every pair (a, b) at distance `half` by (a + b, a - b). Grouping stages into
// passes does not change the operands of any sum, so the bits stay the same.
#if defined(NF_CODEC_SIMD_HADAMARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NF_CODEC_SIMD_HADAMARD_INL_H_
#undef NF_CODEC_SIMD_HADAMARD_INL_H_
#else
#define NF_CODEC_SIMD_HADAMARD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "codec/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

// `other` holds the partner of every lane; `signs` is -1 in the upper lane of each pair.
HWY_INLINE VF butterfly(VF x, VF other, VF signs) { return hn::MulAdd(x, signs, other); }

// All stages between vectors.
template <std::size_t kCount>
HWY_INLINE void butterflies(VF (&x)[kCount]) {
  for (std::size_t half = 1; half < kCount; half *= 2) {
    for (std::size_t i = 0; i < kCount; ++i) {
      if ((i & half) != 0) continue;
      const VF a = x[i];
      const VF b = x[i + half];
      x[i] = hn::Add(a, b);
      x[i + half] = hn::Sub(a, b);
    }
  }
}

// The same from the last stage to the first.
template <std::size_t kCount>
HWY_INLINE void butterflies_down(VF (&x)[kCount]) {
  for (std::size_t half = kCount / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < kCount; ++i) {
      if ((i & half) != 0) continue;
      const VF a = x[i];
      const VF b = x[i + half];
      x[i] = hn::Add(a, b);
      x[i + half] = hn::Sub(a, b);
    }
  }
}

// The signs of the butterflies within a vector; hoist it out of loops.
struct LaneSigns {
  VF by1, by2, by4, by8;

  HWY_INLINE LaneSigns() : by1(of(1)), by2(of(2)), by4(of(4)), by8(of(8)) {}

  static HWY_INLINE VF of(std::uint32_t half) {
    const auto upper = hn::TestBit(hn::Iota(DU(), 0), set_u(half));
    return hn::IfThenElse(hn::RebindMask(DF(), upper), set(-1.0f), set(1.0f));
  }
};

// The stage of one bit of the position in a pack of 32 values.
template <unsigned kBit>
HWY_INLINE void transform_bit(const LaneSigns& signs, VF (&x)[kPackVectors]) {
  constexpr std::size_t kHalf = std::size_t{1} << kBit;
  if constexpr (kHalf >= kLanes) {
    for (std::size_t i = 0; i < kPackVectors; ++i) {
      if ((i & kHalf / kLanes) != 0) continue;
      const VF a = x[i];
      const VF b = x[i + kHalf / kLanes];
      x[i] = hn::Add(a, b);
      x[i + kHalf / kLanes] = hn::Sub(a, b);
    }
  } else {
    for (VF& v : x) {
      if constexpr (kBit == 0) v = butterfly(v, hn::Shuffle2301(v), signs.by1);
      if constexpr (kBit == 1) v = butterfly(v, hn::Shuffle1032(v), signs.by2);
      if constexpr (kBit == 2) v = butterfly(v, hn::SwapAdjacentBlocks(v), signs.by4);
      if constexpr (kBit == 3) v = butterfly(v, hn::ConcatLowerUpper(DF(), v, v), signs.by8);
    }
  }
}

// Stages 1 to 16 of a pack of 32 values.
HWY_INLINE void transform_pack(const LaneSigns& signs, VF (&x)[kPackVectors]) {
  transform_bit<0>(signs, x);
  transform_bit<1>(signs, x);
  transform_bit<2>(signs, x);
  transform_bit<3>(signs, x);
  transform_bit<4>(signs, x);
}

// log2(kRadix) stages from `half` on. `h` is aligned to a vector.
template <std::size_t kRadix>
HWY_INLINE void transform_pass(float* h, std::size_t size, std::size_t half) {
  for (std::size_t base = 0; base < size; base += kRadix * half) {
    for (std::size_t j = 0; j < half; j += kLanes) {
      VF x[kRadix];
      for (std::size_t r = 0; r < kRadix; ++r) x[r] = hn::Load(DF(), h + base + j + r * half);
      butterflies(x);
      for (std::size_t r = 0; r < kRadix; ++r) hn::Store(x[r], DF(), h + base + j + r * half);
    }
  }
}

// The stages from 32 on, after transform_pack().
HWY_INLINE void transform_block(float* h, std::size_t size) {
  std::size_t half = 32;
  for (; 8 * half <= size; half *= 8) transform_pass<8>(h, size, half);
  if (4 * half <= size) {
    transform_pass<4>(h, size, half);
  } else if (2 * half <= size) {
    transform_pass<2>(h, size, half);
  }
}

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();
#endif
