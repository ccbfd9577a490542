// Types and small operations that the vector forms share: operations that Highway lacks, or for
// which there is a single instruction.
#if defined(NF_CODEC_SIMD_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NF_CODEC_SIMD_LANES_INL_H_
#undef NF_CODEC_SIMD_LANES_INL_H_
#else
#define NF_CODEC_SIMD_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DU = hn::ScalableTag<std::uint32_t>;
using DI = hn::ScalableTag<std::int32_t>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;
using VI = hn::Vec<DI>;

inline constexpr std::size_t kLanes = hn::MaxLanes(DF());
inline constexpr std::size_t kPackVectors = 32 / kLanes;  // vectors per pack of 32 values
using D8 = hn::Rebind<std::uint8_t, DU>;                  // as many bytes as DU has lanes

HWY_INLINE VF load(const float* p) { return hn::LoadU(DF(), p); }
HWY_INLINE VF set(float x) { return hn::Set(DF(), x); }
HWY_INLINE VU set_u(std::uint32_t x) { return hn::Set(DU(), x); }
HWY_INLINE VU bits(VF v) { return hn::BitCast(DU(), v); }
HWY_INLINE VF from_bits(VU v) { return hn::BitCast(DF(), v); }
HWY_INLINE VU magnitude(VF v) { return hn::And(bits(v), set_u(0x7fffffffu)); }
HWY_INLINE VF to_float(VU v) { return hn::ConvertTo(DF(), hn::BitCast(DI(), v)); }

// (a & b) | c
HWY_INLINE VU and_or(VU a, VU b, VU c) {
#if HWY_TARGET == HWY_AVX3
  return VU{_mm512_ternarylogic_epi32(a.raw, b.raw, c.raw, 0xea)};
#else
  return hn::Or(hn::And(a, b), c);
#endif
}

// Stores the low byte of every lane.
HWY_INLINE void store_low_bytes(VU v, std::uint8_t* to) {
#if HWY_TARGET == HWY_AVX3
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(v.raw));
#else
  const VI low = hn::BitCast(DI(), hn::And(v, set_u(0xff)));
  hn::StoreU(hn::DemoteTo(D8(), low), D8(), to);
#endif
}

HWY_INLINE VU load_bytes(const std::uint8_t* from) {
  return hn::PromoteTo(DU(), hn::LoadU(D8(), from));
}

// One bit of every lane as a bit mask, lane 0 in bit 0.
HWY_INLINE std::uint32_t bit_of_lanes(VU v, VU bit) {
#if HWY_TARGET == HWY_AVX3
  return _mm512_test_epi32_mask(v.raw, bit.raw);
#else
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(DU(), hn::TestBit(v, bit), bytes);
  std::uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
#endif
}

// Adds `flag` to the lanes whose bit in `word` is set.
HWY_INLINE VU add_where(VU v, std::uint32_t word, VU flag) {
#if HWY_TARGET == HWY_AVX3
  return VU{_mm512_mask_add_epi32(v.raw, static_cast<__mmask16>(word), v.raw, flag.raw)};
#else
  const VU lane_bit = hn::Shl(set_u(1), hn::Iota(DU(), 0));
  const auto chosen = hn::TestBit(set_u(word), lane_bit);
  return hn::Add(v, hn::IfThenElseZero(chosen, flag));
#endif
}

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();
#endif
