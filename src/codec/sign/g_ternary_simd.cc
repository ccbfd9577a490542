// Vector form of encoding g_ternary. A first pass over a block computes the threshold. The second
// pass reads the block from cache and prefetches the next block.
#include "codec/sign/sign_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/sign/g_ternary_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "codec/sign/counts-inl.h"
#include "codec/simd/codes-inl.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"
#include "codec/wire_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA
namespace {

// A byte of five closed gates, 1 + 3 + 9 + 27 + 81, plus 2^23, which keeps integers in the low
// bits.
constexpr float kAllClosed = 0x1p23f + 121.0f;

HWY_INLINE VF add_masked(hn::Mask<DF> mask, VF a, VF b) {
#if HWY_TARGET == HWY_AVX3
  return VF{_mm512_mask_add_ps(a.raw, mask.raw, a.raw, b.raw)};
#else
  return hn::Add(a, hn::IfThenElseZero(mask, b));
#endif
}

HWY_INLINE float mean_magnitude(const float* values, std::size_t held) {
  RunningSums sums;
  for (std::size_t p = 0; p < kSignPacks; ++p) {
    for (std::size_t v = 0; v < kPackVectors; ++v, values += kLanes) {
      sums.at(v) = hn::Add(sums.at(v), hn::Abs(load(values)));
    }
  }
  return sums.fold() / static_cast<float>(held);
}

// The gates of one block and its scale.
class Gates {
 public:
  HWY_INLINE Gates(const SignBlocks& blocks, const float* values)
      : mean_(mean_magnitude(values, blocks.held)), threshold_(set(blocks.tau * mean_)), sums_() {}

  // The open gates of vector `v` of a pack. Call it once per vector of the block, in order.
  HWY_INLINE hn::Mask<DF> pass(std::size_t v, VF x) {
    const VF size = hn::Abs(x);
    const auto open = hn::Gt(size, threshold_);
    sums_.at(v) = add_masked(open, sums_.at(v), size);
    count_ += hn::CountTrue(DF(), open);
    return open;
  }

  HWY_INLINE float scale() const {
    if (!std::isfinite(mean_)) return poison_unless_finite(mean_);
    return count_ == 0 ? 0.0f : sums_.fold() / static_cast<float>(count_);
  }

 private:
  float mean_;
  VF threshold_;
  RunningSums sums_;
  std::size_t count_ = 0;
};

// Prefetches the pack at the same position in the next block.
HWY_INLINE void prefetch_next_block(const float* pack) {
  hwy::Prefetch(pack + kSignBlock);
  hwy::Prefetch(pack + kSignBlock + 16);
}

void encode(const SignBlocks& blocks, const float* values, SignOut wire) {
  auto* to = reinterpret_cast<std::uint8_t*>(wire.codes);
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const float* from = values + b * kSignBlock;
    Gates gates(blocks, from);
    for (std::size_t u = 0; u < kTritUnits; ++u, to += kTritUnitBytes) {
      VF byte[kPackVectors];
      for (VF& lanes : byte) lanes = set(kAllClosed);
      for (std::size_t i = 0; i < kTritsPerByte; ++i, from += kPack) {
        prefetch_next_block(from);
        const VF power = set(static_cast<float>(kPowersOf3[i]));
        for (std::size_t v = 0; v < kPackVectors; ++v) {
          const VF x = load(from + v * kLanes);
          byte[v] = add_masked(gates.pass(v, x), byte[v], hn::CopySignToAbs(power, x));
        }
      }
      for (std::size_t v = 0; v < kPackVectors; ++v) {
        store_low_bytes(bits(byte[v]), to + v * kLanes);
      }
    }
    put_float(gates.scale(), wire.scales + 4 * b);
  }
}

template <class Reader, class Writer>
HWY_INLINE void count_up(const SignBlocks& blocks, SignIn wire, const float* values, SignOut out,
                         Reader reader, Writer writer) {
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const float* from = values + b * kSignBlock;
    Gates gates(blocks, from);
    for (std::size_t p = 0; p < kSignPacks; ++p, from += kPack) {
      prefetch_next_block(from);
      VU code[kPackVectors];
      reader.read(b * kSignPacks + p, code);
      for (std::size_t v = 0; v < kPackVectors; ++v) {
        const VF x = load(from + v * kLanes);
        const VU negative = hn::ShiftRight<31>(bits(x));
        const VU sign = hn::Sub(set_u(2), hn::Add(negative, negative));
        const auto open = hn::RebindMask(DU(), gates.pass(v, x));
        code[v] = hn::Add(code[v], hn::IfThenElse(open, sign, set_u(kClosedTrit)));
      }
      writer.write(b * kSignPacks + p, code);
    }
    const float scale = gates.scale() + get_float(wire.scales + 4 * b);
    put_float(poison_unless_finite(scale), out.scales + 4 * b);
  }
}

void decode_add_encode(const SignBlocks& blocks, SignIn wire, const float* values, SignOut out) {
  if (!has_vector_form(out.format)) {
    g_ternary_reference().decode_add_encode(blocks, wire, values, out);
    return;
  }
  if (wire.format.has_trits()) {
    count_up(blocks, wire, values, out, TritReader(wire.codes),
             CountWriter(out.codes, FixedWidth<3>()));
    return;
  }
  with_width(wire.format.width(), [&](auto width) HWY_ATTR {
    const CountReader reader(wire.codes, width);
    if (out.format.width() == width) {
      count_up(blocks, wire, values, out, reader, CountWriter(out.codes, width));
    } else {
      count_up(blocks, wire, values, out, reader, CountWriter(out.codes, FixedWidth<width + 1>()));
    }
  });
}

constexpr SignKernels kTernaryTable = {encode, decode_add_encode};

}  // namespace
#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const SignKernels& g_ternary_simd(Isa isa) { return *NF_SELECT_TABLE(isa, kTernaryTable); }

}  // namespace nf
#endif
