// Vector form of dynamiq's lattices: codes to values and positions to codes. Included once per
// target.
#if defined(NF_CODEC_DYNAMIQ_LATTICE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NF_CODEC_DYNAMIQ_LATTICE_INL_H_
#undef NF_CODEC_DYNAMIQ_LATTICE_INL_H_
#else
#define NF_CODEC_DYNAMIQ_LATTICE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "codec/codes.h"
#include "codec/dynamiq/dynamiq_lattice.h"
#include "codec/simd/codes-inl.h"
#include "codec/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

// A table of sixteen numbers. Only the lowest four bits of an index are used.
class Table {
 public:
#if HWY_TARGET == HWY_AVX3
  HWY_INLINE explicit Table(const float* numbers) : numbers_(load(numbers)) {}
  HWY_INLINE VF operator[](VU index) const {
    return VF{_mm512_permutexvar_ps(index.raw, numbers_.raw)};
  }

 private:
  VF numbers_;
#elif HWY_TARGET == HWY_AVX2
  HWY_INLINE explicit Table(const float* numbers)
      : lower_(load(numbers)), upper_(load(numbers + 8)) {}
  HWY_INLINE VF operator[](VU index) const {
    const __m256 bit3 = from_bits(hn::ShiftLeft<28>(index)).raw;
    return VF{_mm256_blendv_ps(_mm256_permutevar8x32_ps(lower_.raw, index.raw),
                               _mm256_permutevar8x32_ps(upper_.raw, index.raw), bit3)};
  }

 private:
  VF lower_;
  VF upper_;
#else
  HWY_INLINE explicit Table(const float* numbers) {
    std::memcpy(numbers_, numbers, sizeof numbers_);
  }
  HWY_INLINE VF operator[](VU index) const {
    return hn::GatherIndex(DF(), numbers_, hn::BitCast(DI(), hn::And(index, set_u(15))));
  }

 private:
  float numbers_[16];
#endif
};

// The levels of width 8 by magnitude.
template <bool kUniform>
class Levels8 {
 public:
  HWY_INLINE explicit Levels8(const DynamiqLattice& lattice)
      : coarse_(lattice.coarse.data()),
        fine_(lattice.fine.data()),
        start_(set(lattice.coarse[0])) {}

  HWY_INLINE VF operator[](VU r) const {
    if constexpr (kUniform) return to_float(r);
    return hn::MulSub(coarse_[hn::ShiftRight<4>(r)], fine_[r], start_);
  }

 private:
  Table coarse_;
  Table fine_;
  VF start_;
};

// Reads packs of codes as signed lattice values.
template <unsigned kWidth, bool kUniform>
class CodeValues {
 public:
  HWY_INLINE explicit CodeValues(const DynamiqLattice& lattice)
      : values_(lattice.code_value.data()) {}

  HWY_INLINE const std::uint8_t* read(const std::uint8_t* codes, VF (&value)[kPackVectors]) const {
    constexpr std::size_t kHalf = kPackVectors / 2;
    if constexpr (kWidth == 4) {
      for (std::size_t v = 0; v < kHalf; ++v) {
        const VU both = load_bytes(codes + v * kLanes);
        value[v] = values_[both];
        value[v + kHalf] = values_[hn::ShiftRight<4>(both)];
      }
    } else {
      VU code[kPackVectors];
      unpack_codes(codes, kWidth, code);
      for (std::size_t v = 0; v < kPackVectors; ++v) value[v] = values_[code[v]];
    }
    return codes + pack_bytes(kWidth);
  }

 private:
  Table values_;
};

template <bool kUniform>
class CodeValues<8, kUniform> {
 public:
  HWY_INLINE explicit CodeValues(const DynamiqLattice& lattice) : levels_(lattice) {}

  HWY_INLINE const std::uint8_t* read(const std::uint8_t* codes, VF (&value)[kPackVectors]) const {
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      const VU code = load_bytes(codes + v * kLanes);
      const VU sign = hn::And(hn::ShiftLeft<24>(code), set_u(0x80000000u));
      const VU r = hn::And(code, set_u(127));
      value[v] = from_bits(hn::Or(bits(levels_[r]), sign));
    }
    return codes + pack_bytes(8);
  }

 private:
  Levels8<kUniform> levels_;
};

// Increments `number` in the lanes whose threshold is below the position.
HWY_INLINE VU step_up(VU number, VF threshold, VF position) {
#if HWY_TARGET == HWY_AVX3
  const __mmask16 below = _mm512_cmp_ps_mask(threshold.raw, position.raw, _CMP_LT_OQ);
  return VU{_mm512_mask_add_epi32(number.raw, below, number.raw, _mm512_set1_epi32(1))};
#else
  const VF below = hn::VecFromMask(DF(), hn::Lt(threshold, position));
  return hn::Sub(number, bits(below));  // a true lane is -1
#endif
}

// Rounds positions to codes: estimates the number of the value, correct or one too low, and
// corrects it by one threshold. Processes several vectors in parallel, step by step, because each
// is a long dependency chain.
template <unsigned kWidth, bool kUniform>
class Rounder;

template <bool kUniform>
class Rounder<2, kUniform> {
 public:
  HWY_INLINE Rounder(const DynamiqLattice& /*lattice*/, float slope)
      : slope_(set(slope)), up_(set(0.5f * slope)), down_(set(0.5f * slope - 1.0f)) {}

  template <std::size_t kCount>
  HWY_INLINE void operator()(const VF (&position)[kCount], const VF (&draw)[kCount],
                             VU (&code)[kCount]) const {
    for (std::size_t v = 0; v < kCount; ++v) {
      const auto up = hn::Lt(hn::MulAdd(draw[v], slope_, up_), position[v]);
      const auto down = hn::Le(position[v], hn::MulAdd(draw[v], slope_, down_));
      code[v] = hn::IfThenElse(hn::RebindMask(DU(), down), set_u(3),
                               hn::IfThenElseZero(hn::RebindMask(DU(), up), set_u(1)));
    }
  }

 private:
  VF slope_;
  VF up_;
  VF down_;
};

template <bool kUniform>
class Rounder<4, kUniform> {
 public:
  HWY_INLINE Rounder(const DynamiqLattice& lattice, float slope)
      : Rounder(lattice, slope, Thresholds(lattice, slope)) {}

  template <std::size_t kCount>
  HWY_INLINE void operator()(const VF (&position)[kCount], const VF (&draw)[kCount],
                             VU (&code)[kCount]) const {
    VF about[kCount];  // a straight line approximates the values to within 0.47 of a step

    for (std::size_t v = 0; v < kCount; ++v) {
      about[v] = hn::NegMulAdd(draw[v], slope_, position[v]);
    }
    VU number[kCount];  // in the low bits; the addition rounds
    for (std::size_t v = 0; v < kCount; ++v) {
      number[v] = bits(hn::Add(about[v], set(0x1.8p23f + 7.0f)));
    }
    VF threshold[kCount];
    for (std::size_t v = 0; v < kCount; ++v) {
      threshold[v] = hn::MulAdd(draw[v], height_[number[v]], base_[number[v]]);
    }
    for (std::size_t v = 0; v < kCount; ++v) {
      number[v] = step_up(number[v], threshold[v], position[v]);
    }
    for (std::size_t v = 0; v < kCount; ++v) code[v] = bits(code_[number[v]]);
  }

 private:
  struct Thresholds {
    alignas(64) float height[DynamiqLattice::kFew];
    alignas(64) float base[DynamiqLattice::kFew];

    HWY_INLINE Thresholds(const DynamiqLattice& lattice, float slope) {
      for (std::size_t k = 0; k < DynamiqLattice::kFew; k += kLanes) {
        const VF h = hn::Mul(hn::Load(DF(), lattice.gap.data() + k), set(slope));
        hn::Store(h, DF(), height + k);
        hn::Store(hn::MulAdd(set(0.5f), h, hn::Load(DF(), lattice.low.data() + k)), DF(), base + k);
      }
    }
  };

  HWY_INLINE Rounder(const DynamiqLattice& lattice, float slope, const Thresholds& thresholds)
      : slope_(set(slope)),
        height_(thresholds.height),
        base_(thresholds.base),
        code_(reinterpret_cast<const float*>(lattice.code.data())) {}

  VF slope_;
  Table height_;
  Table base_;
  Table code_;
};

template <bool kUniform>
class Rounder<8, kUniform> {
 public:
  HWY_INLINE Rounder(const DynamiqLattice& lattice, float slope)
      : levels_(lattice), slope_(set(slope)) {}

  template <std::size_t kCount>
  HWY_INLINE void operator()(const VF (&position)[kCount], const VF (&draw)[kCount],
                             VU (&code)[kCount]) const {
    VF about[kCount];
    for (std::size_t v = 0; v < kCount; ++v) {
      const VF magnitude = estimate(hn::Abs(position[v]));
      about[v] = hn::NegMulAdd(draw[v], slope_, hn::CopySign(magnitude, position[v]));
    }
    VU number[kCount];  // relative to zero
    for (std::size_t v = 0; v < kCount; ++v) {
      const VF within = hn::Min(hn::Max(about[v], set(-127.0f)), set(126.0f));
      number[v] = hn::Sub(bits(hn::Add(within, set(0x1.8p23f))), set_u(0x4b400000u));
    }
    for (std::size_t v = 0; v < kCount; ++v) {
      number[v] = step_up(number[v], threshold(number[v], draw[v]), position[v]);
    }
    for (std::size_t v = 0; v < kCount; ++v) {
      const VU sign = hn::And(hn::ShiftRight<24>(number[v]), set_u(0x80));
      code[v] = hn::Or(hn::BitCast(DU(), hn::Abs(hn::BitCast(DI(), number[v]))), sign);
    }
  }

 private:
  HWY_INLINE VF threshold(VU number, VF draw) const {
    // The steps up from -1, -2, ... mirror those from 0, 1, ...
    const VU negative = hn::BitCast(DU(), hn::ShiftRight<31>(hn::BitCast(DI(), number)));
    const VU r = hn::Xor(number, negative);
    const VF inner = levels_[r];
    const VF outer = levels_[hn::Add(r, set_u(1))];
    const VF low = hn::IfThenElse(hn::MaskFromVec(from_bits(negative)), hn::Neg(outer), inner);
    const VF height = hn::Mul(hn::Sub(outer, inner), slope_);
    return hn::MulAdd(draw, height, hn::MulAdd(set(0.5f), height, low));
  }

  // The magnitude as a real number, with an error below 0.3.
  static HWY_INLINE VF estimate(VF position) {
    if constexpr (kUniform) return position;
    // log2(1 + position / coarse[0]) / log2(growth); a parabola approximates the logarithm of the
    // mantissa.
    const VU x = bits(hn::MulAdd(position, set(4.0293165f / 127.0f), set(1.0f)));
    const VF octave = to_float(hn::ShiftRight<23>(x));
    const VF mantissa = from_bits(and_or(x, set_u(0x007fffffu), set_u(0x3f800000u)));
    constexpr float kStepsPerOctave = 54.497962f;
    const VF slope = hn::MulAdd(mantissa, set(-0.34484843f * kStepsPerOctave),
                                set(2.02466578f * kStepsPerOctave));
    const VF parabola = hn::MulAdd(mantissa, slope, set((-1.67487759f - 127.0f) * kStepsPerOctave));
    return hn::MulAdd(octave, set(kStepsPerOctave), parabola);
  }

  Levels8<kUniform> levels_;
  VF slope_;
};

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();
#endif
