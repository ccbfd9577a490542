// Vector form of base/random.h. Included once per target, between HWY_BEFORE_NAMESPACE and
// HWY_AFTER_NAMESPACE of the including file.
#if defined(NF_CODEC_SIMD_RANDOM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NF_CODEC_SIMD_RANDOM_INL_H_
#undef NF_CODEC_SIMD_RANDOM_INL_H_
#else
#define NF_CODEC_SIMD_RANDOM_INL_H_
#endif

#include <hwy/highway.h>

#include "base/random.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA
namespace hn = hwy::HWY_NAMESPACE;

// The words of one block of 256 elements in order, one vector at a time.
class DrawWords {
 public:
  using D = hn::ScalableTag<std::uint32_t>;
  using V = hn::Vec<D>;

  // `strides` is strides(); hoist it out of loops.
  HWY_INLINE DrawWords(DrawKey key, V strides)
      : counter_(hn::Add(hn::Set(D(), key.start), strides)), twist_(hn::Set(D(), key.twist)) {}

  static HWY_INLINE V strides() { return hn::Mul(hn::Iota(D(), 0), hn::Set(D(), kWordStride)); }

  HWY_INLINE V next() {
    V x = counter_;
    advance();
    x = Xor3(x, hn::ShiftRight<16>(x), twist_);
    x = hn::Mul(x, hn::Set(D(), kWordMultiplier));
    return hn::Xor(x, hn::ShiftRight<16>(x));
  }

  // The next few vectors, computed in parallel because each is a long dependency chain.
  template <std::size_t kCount>
  HWY_INLINE void next(V (&x)[kCount]) {
    for (V& word : x) {
      word = counter_;
      advance();
    }
    for (V& word : x) word = Xor3(word, hn::ShiftRight<16>(word), twist_);
    for (V& word : x) word = hn::Mul(word, hn::Set(D(), kWordMultiplier));
    for (V& word : x) word = hn::Xor(word, hn::ShiftRight<16>(word));
  }

 private:
  HWY_INLINE void advance() {
    const auto lanes = static_cast<std::uint32_t>(hn::Lanes(D()));
    counter_ = hn::Add(counter_, hn::Set(D(), kWordStride * lanes));
  }

  static HWY_INLINE V Xor3(V a, V b, V c) {
#if HWY_TARGET == HWY_AVX3
    return V{_mm512_ternarylogic_epi32(a.raw, b.raw, c.raw, 0x96)};
#else
    return hn::Xor(hn::Xor(a, b), c);
#endif
  }

  V counter_;
  V twist_;
};

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();
#endif
