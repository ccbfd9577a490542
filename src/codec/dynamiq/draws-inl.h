// Vector form of dynamiq's draws. Included once per target.
#if defined(NF_CODEC_DYNAMIQ_DRAWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NF_CODEC_DYNAMIQ_DRAWS_INL_H_
#undef NF_CODEC_DYNAMIQ_DRAWS_INL_H_
#else
#define NF_CODEC_DYNAMIQ_DRAWS_INL_H_
#endif

#include <hwy/highway.h>

#include "codec/codes.h"
#include "codec/dynamiq/dynamiq_draws.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/random-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

// The draws of one super-group, a few packs of 32 elements at a time.
template <bool kCorrelated>
class RoundingDraws {
 public:
  HWY_INLINE RoundingDraws(const DynamiqDraws& draws, std::uint64_t super_group, VU strides)
      : RoundingDraws(draws, DrawKey(draws.rounding, super_group),
                      DrawKey(draws.shared, super_group), strides) {}

  // Writes the draws of the next `kPacks` packs, an even number.
  template <std::size_t kPacks>
  HWY_INLINE void next(float* to) {
    constexpr std::size_t kHalf = kPackVectors / 2;  // vectors of words per pack
    VU words[kPacks * kHalf];
    rounding_.next(words);
    if constexpr (kCorrelated) {
      VU strata[kPacks * kHalf];
      next_strata(strata);
      for (std::size_t v = 0; v < kPacks * kHalf; ++v) {
        float* at = to + v / kHalf * kPack + v % kHalf * kLanes;
        const VU low = and_or(words[v], set_u(0xffffu), hn::ShiftLeft<16>(strata[v]));
        const VU high = and_or(strata[v], set_u(0xffff0000u), hn::ShiftRight<16>(words[v]));
        hn::Store(to_float(low), DF(), at);
        hn::Store(to_float(high), DF(), at + kPack / 2);
      }
    } else {
      for (std::size_t v = 0; v < kPacks * kHalf; ++v) {
        float* at = to + v / kHalf * kPack + v % kHalf * kLanes;
        hn::Store(to_float(hn::And(words[v], set_u(0xffffu))), DF(), at);
        hn::Store(to_float(hn::ShiftRight<16>(words[v])), DF(), at + kPack / 2);
      }
    }
  }

 private:
  using D16 = hn::Repartition<std::uint16_t, DU>;

  HWY_INLINE RoundingDraws(const DynamiqDraws& draws, DrawKey rounding, DrawKey shared, VU strides)
      : rounding_(rounding, strides),
        shared_(shared, strides),
        count_(hn::Set(D16(), static_cast<std::uint16_t>(draws.strata))),
        shift_(hn::Set(D16(), static_cast<std::uint16_t>(kCorrelated ? draws.shift(shared) : 0))) {}

  // The strata of an even number of packs, two elements per lane with 16 bits each.
  template <std::size_t kCount>
  HWY_INLINE void next_strata(VU (&strata)[kCount]) {
    constexpr std::size_t kHalf = kPackVectors / 2;  // vectors of words per pack
    VU words[kCount / 2];
    shared_.next(words);
    for (std::size_t v = 0; v < kCount / 2; ++v) {
      const std::size_t at = v / kHalf * 2 * kHalf + v % kHalf;
      strata[at] = words[v];
      strata[at + kHalf] = swap_bytes(words[v]);
    }
    for (VU& s : strata) {
      s = hn::BitCast(DU(), hn::Add(hn::MulHigh(hn::BitCast(D16(), s), count_), shift_));
    }
    for (VU& s : strata) {
      const auto sum = hn::BitCast(D16(), s);
      s = hn::BitCast(DU(), hn::Min(sum, hn::Sub(sum, count_)));  // sum mod count
    }
  }

  // Swaps the two bytes of every 16 bits.
  static HWY_INLINE VU swap_bytes(VU v) {
    alignas(16) static constexpr std::uint8_t kOrder[16] = {1, 0, 3,  2,  5,  4,  7,  6,
                                                            9, 8, 11, 10, 13, 12, 15, 14};
    const hn::Repartition<std::uint8_t, DU> d8;
    return hn::BitCast(DU(), hn::TableLookupBytes(hn::BitCast(d8, v), hn::LoadDup128(d8, kOrder)));
  }

  DrawWords rounding_;
  DrawWords shared_;
  hn::Vec<D16> count_;
  hn::Vec<D16> shift_;
};

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();
#endif
