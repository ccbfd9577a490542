// Reductions of eight or sixteen rows at a time, in the fixed order of docs/wire_format.md.
#if defined(NF_CODEC_SIMD_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NF_CODEC_SIMD_REDUCE_INL_H_
#undef NF_CODEC_SIMD_REDUCE_INL_H_
#else
#define NF_CODEC_SIMD_REDUCE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

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
