// What vector forms share: groups of 32 values as a few vectors, codes packed as codec/codes.h
// says, and reductions of eight or sixteen vectors at a time in the fixed order of
// docs/wire_format.md.
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
inline constexpr std::size_t kGroupVectors = 32 / kLanes;  // vectors in a group of 32 values
using D8 = hn::Rebind<std::uint8_t, DU>;                   // as many bytes as DU has lanes

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

// The low byte of every lane.
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

// One bit of every lane, as a number with lane 0 in its bit 0.
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

// v with `flag` added in the lanes whose bit of `word` is set.
HWY_INLINE VU add_where(VU v, std::uint32_t word, VU flag) {
#if HWY_TARGET == HWY_AVX3
  return VU{_mm512_mask_add_epi32(v.raw, static_cast<__mmask16>(word), v.raw, flag.raw)};
#else
  const VU lane_bit = hn::Shl(set_u(1), hn::Iota(DU(), 0));
  const auto chosen = hn::TestBit(set_u(word), lane_bit);
  return hn::Add(v, hn::IfThenElseZero(chosen, flag));
#endif
}

// Packs 32 codes of `width` bits as codec/codes.h says; lanes may hold rubbish from bit 18 on.
// Returns the end of what it wrote.
HWY_INLINE std::uint8_t* pack_codes(const VU (&c)[kGroupVectors], unsigned width,
                                    std::uint8_t* to) {
  constexpr std::size_t kHalf = kGroupVectors / 2;
  VU rest[kGroupVectors];
  for (std::size_t v = 0; v < kGroupVectors; ++v) rest[v] = c[v];
  if ((width & 8) != 0) {
    for (std::size_t v = 0; v < kGroupVectors; ++v) {
      store_low_bytes(rest[v], to + v * kLanes);
      rest[v] = hn::ShiftRight<8>(rest[v]);
    }
    to += 32;
  }
  if ((width & 4) != 0) {
    const VU low = set_u(15);
    for (std::size_t v = 0; v < kHalf; ++v) {
      const VU here = (width & 3) != 0 ? hn::And(rest[v], low) : rest[v];
      const VU both = hn::Or(here, hn::ShiftLeft<4>(rest[v + kHalf]));
      store_low_bytes(both, to + v * kLanes);
    }
    to += 16;
    if ((width & 3) != 0) {
      for (std::size_t v = 0; v < kGroupVectors; ++v) rest[v] = hn::ShiftRight<4>(rest[v]);
    }
  }
  if ((width & 2) != 0) {
    const VU low = set_u(3);
    if constexpr (kLanes == 16) {
      const VU both = hn::Or(hn::And(rest[0], low), hn::ShiftLeft<4>(hn::And(rest[1], low)));
      std::uint8_t bytes[16];
      store_low_bytes(both, bytes);
      std::uint64_t halves[2];
      std::memcpy(halves, bytes, sizeof halves);
      const std::uint64_t merged = halves[0] | halves[1] << 2;
      std::memcpy(to, &merged, sizeof merged);
    } else {
      constexpr std::size_t kQuarter = kGroupVectors / 4;
      for (std::size_t v = 0; v < kQuarter; ++v) {
        const VU a = hn::And(rest[v], low);
        const VU b = hn::ShiftLeft<2>(hn::And(rest[v + kQuarter], low));
        const VU e = hn::ShiftLeft<4>(hn::And(rest[v + 2 * kQuarter], low));
        const VU f = hn::ShiftLeft<6>(rest[v + 3 * kQuarter]);
        store_low_bytes(hn::Or(hn::Or(a, b), hn::Or(e, f)), to + v * kLanes);
      }
    }
    to += 8;
    if ((width & 1) != 0) {
      for (std::size_t v = 0; v < kGroupVectors; ++v) rest[v] = hn::ShiftRight<2>(rest[v]);
    }
  }
  if ((width & 1) != 0) {
    std::uint32_t word = 0;
    for (std::size_t v = 0; v < kGroupVectors; ++v) {
      word |= bit_of_lanes(rest[v], set_u(1)) << (v * kLanes);
    }
    std::memcpy(to, &word, sizeof word);
    to += 4;
  }
  return to;
}

// The reverse; returns the end of what it read.
HWY_INLINE const std::uint8_t* unpack_codes(const std::uint8_t* from, unsigned width,
                                            VU (&c)[kGroupVectors]) {
  constexpr std::size_t kHalf = kGroupVectors / 2;
  unsigned shift = 0;
  for (std::size_t v = 0; v < kGroupVectors; ++v) c[v] = hn::Zero(DU());
  if ((width & 8) != 0) {
    for (std::size_t v = 0; v < kGroupVectors; ++v) c[v] = load_bytes(from + v * kLanes);
    from += 32;
    shift = 8;
  }
  if ((width & 4) != 0) {
    for (std::size_t v = 0; v < kHalf; ++v) {
      const VU both = load_bytes(from + v * kLanes);
      c[v] = hn::Or(c[v], hn::ShiftLeftSame(hn::And(both, set_u(15)), static_cast<int>(shift)));
      c[v + kHalf] =
          hn::Or(c[v + kHalf], hn::ShiftLeftSame(hn::ShiftRight<4>(both), static_cast<int>(shift)));
    }
    from += 16;
    shift += 4;
  }
  if ((width & 2) != 0) {
    const VU low = set_u(3);
    if constexpr (kLanes == 16) {
      std::uint64_t merged;
      std::memcpy(&merged, from, sizeof merged);
      const std::uint64_t halves[2] = {merged, merged >> 2};
      std::uint8_t bytes[16];
      std::memcpy(bytes, halves, sizeof bytes);
      const VU both = load_bytes(bytes);
      c[0] = hn::Or(c[0], hn::ShiftLeftSame(hn::And(both, low), static_cast<int>(shift)));
      c[1] = hn::Or(
          c[1], hn::ShiftLeftSame(hn::And(hn::ShiftRight<4>(both), low), static_cast<int>(shift)));
    } else {
      constexpr std::size_t kQuarter = kGroupVectors / 4;
      for (std::size_t v = 0; v < kQuarter; ++v) {
        const VU all = load_bytes(from + v * kLanes);
        const VU parts[4] = {hn::And(all, low), hn::And(hn::ShiftRight<2>(all), low),
                             hn::And(hn::ShiftRight<4>(all), low), hn::ShiftRight<6>(all)};
        for (std::size_t q = 0; q < 4; ++q) {
          c[v + q * kQuarter] =
              hn::Or(c[v + q * kQuarter], hn::ShiftLeftSame(parts[q], static_cast<int>(shift)));
        }
      }
    }
    from += 8;
    shift += 2;
  }
  if ((width & 1) != 0) {
    std::uint32_t word;
    std::memcpy(&word, from, sizeof word);
    for (std::size_t v = 0; v < kGroupVectors; ++v) {
      c[v] = add_where(c[v], word >> (v * kLanes), set_u(1u << shift));
    }
    from += 4;
  }
  return from;
}

struct MaxOp {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
};
struct AddOp {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};

// Reduces eight rows of sixteen partial results (lane i with i + 8 first, then i + 4, i + 2, i + 1)
// to out[0..7]. A row is 16 / kLanes vectors.
template <class Op, class V, typename T>
HWY_INLINE void reduce8(Op op, const V (&rows)[8][16 / kLanes], T* out) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const hn::CappedTag<T, 8> d;
  const hn::Repartition<std::uint64_t, decltype(d)> d64;
  using V8 = hn::Vec<decltype(d)>;
  V8 eights[8];
  for (std::size_t r = 0; r < 8; ++r) {
#if HWY_TARGET == HWY_AVX3
    eights[r] = op(hn::LowerHalf(d, rows[r][0]), hn::UpperHalf(d, rows[r][0]));
#else
    eights[r] = op(rows[r][0], rows[r][1]);
#endif
  }
  V8 fours[4];  // [row 2r: 4 lanes | row 2r + 1: 4 lanes]
  for (std::size_t r = 0; r < 4; ++r) {
    fours[r] = op(hn::ConcatLowerLower(d, eights[2 * r + 1], eights[2 * r]),
                  hn::ConcatUpperUpper(d, eights[2 * r + 1], eights[2 * r]));
  }
  V8 ones[2];  // [row 4r, 4r + 2 | 4r + 1, 4r + 3], two equal lanes each
  for (std::size_t r = 0; r < 2; ++r) {
    const auto x = hn::BitCast(d64, fours[2 * r]);
    const auto y = hn::BitCast(d64, fours[2 * r + 1]);
    const V8 pairs = op(hn::BitCast(d, hn::InterleaveLower(d64, x, y)),
                        hn::BitCast(d, hn::InterleaveUpper(d64, x, y)));
    ones[r] = op(pairs, hn::Shuffle2301(pairs));
  }
  alignas(32) static constexpr std::int32_t kOrder[8] = {0, 2, 1, 3, 4, 6, 5, 7};
  const V8 mixed = hn::ConcatEven(d, ones[1], ones[0]);
  hn::StoreU(hn::TableLookupLanes(mixed, hn::SetTableIndices(d, kOrder)), d, out);
#else
  for (std::size_t r = 0; r < 8; ++r) {
    V folded[16 / kLanes];
    for (std::size_t v = 0; v < 16 / kLanes; ++v) folded[v] = rows[r][v];
    for (std::size_t v = 16 / kLanes; v > 1; v /= 2) {
      for (std::size_t i = 0; i < v / 2; ++i) folded[i] = op(folded[i], folded[i + v / 2]);
    }
    V four = folded[0];
    four = op(four, hn::Shuffle1032(four));
    four = op(four, hn::Shuffle2301(four));
    out[r] = hn::GetLane(four);
  }
#endif
}

// The same for sixteen rows and out[0..15].
template <class Op, class V, typename T>
HWY_INLINE void reduce16(Op op, const V (&rows)[16][16 / kLanes], T* out) {
  using Rows = const V(&)[8][16 / kLanes];
#if HWY_TARGET == HWY_AVX3
  const hn::DFromV<V> d;
  const hn::Repartition<std::uint64_t, decltype(d)> d64;
  const hn::Repartition<std::uint32_t, decltype(d)> d32;
  V eights[8];
  for (std::size_t r = 0; r < 8; ++r) {
    eights[r] = op(hn::ConcatLowerLower(d, rows[2 * r + 1][0], rows[2 * r][0]),
                   hn::ConcatUpperUpper(d, rows[2 * r + 1][0], rows[2 * r][0]));
  }
  V fours[4];  // rows 4r, 4r + 1, 4r + 2, 4r + 3, a block each
  for (std::size_t r = 0; r < 4; ++r) {
    const __m512i x = hn::BitCast(d32, eights[2 * r]).raw;
    const __m512i y = hn::BitCast(d32, eights[2 * r + 1]).raw;
    fours[r] = op(hn::BitCast(d, VU{_mm512_shuffle_i32x4(x, y, 0x88)}),
                  hn::BitCast(d, VU{_mm512_shuffle_i32x4(x, y, 0xdd)}));
  }
  V pairs[2];  // block b: rows 8r + b, 8r + b + 4
  for (std::size_t r = 0; r < 2; ++r) {
    const auto x = hn::BitCast(d64, fours[2 * r]);
    const auto y = hn::BitCast(d64, fours[2 * r + 1]);
    pairs[r] = op(hn::BitCast(d, hn::InterleaveLower(d64, x, y)),
                  hn::BitCast(d, hn::InterleaveUpper(d64, x, y)));
  }
  const __m512 x = hn::BitCast(DF(), pairs[0]).raw;
  const __m512 y = hn::BitCast(DF(), pairs[1]).raw;
  // Block b: rows b, b + 4, b + 8, b + 12.
  const V ones = op(hn::BitCast(d, VF{_mm512_shuffle_ps(x, y, 0x88)}),
                    hn::BitCast(d, VF{_mm512_shuffle_ps(x, y, 0xdd)}));
  alignas(64) static constexpr std::int32_t kOrder[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                          2, 6, 10, 14, 3, 7, 11, 15};
  hn::StoreU(hn::TableLookupLanes(ones, hn::SetTableIndices(d, kOrder)), d, out);
#else
  reduce8(op, reinterpret_cast<Rows>(rows[0]), out);
  reduce8(op, reinterpret_cast<Rows>(rows[8]), out + 8);
#endif
}

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();
#endif
