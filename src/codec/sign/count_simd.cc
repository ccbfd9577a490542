// Vector form of decoding g_binary and g_ternary.
#include "codec/sign/sign_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/sign/count_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "codec/sign/counts-inl.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"
#include "codec/wire_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA
namespace {

enum class Store { kAdd, kPlain, kStream };

template <Store kStore>
HWY_INLINE void store_value(VF value, std::size_t v, float* at) {
  if constexpr (kStore == Store::kAdd) {
    if (v * kLanes % 16 == 0) prefetch_ahead(at);
    hn::StoreU(hn::Add(load(at), value), DF(), at);
  } else if constexpr (kStore == Store::kStream) {
    hn::Stream(value, DF(), at);
  } else {
    hn::StoreU(value, DF(), at);
  }
}

// One contribution of g_binary: a bit chooses between the scale and its negative.
template <Store kStore>
void decode_bits(const SignBlocks& blocks, SignIn wire, float* to) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(wire.codes);
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const VF plus = set(get_float(wire.scales + 4 * b));
    const VF minus = hn::Sub(hn::Zero(DF()), plus);  // of 0 too it is +0
    for (std::size_t g = 0; g < kSignGroups; ++g, to += kGroup, codes += group_bytes(1)) {
      for (std::size_t v = 0; v < kGroupVectors; ++v) {
        const auto positive = hn::LoadMaskBits(DF(), codes + v * kLanes / 8);
        store_value<kStore>(hn::IfThenElse(positive, plus, minus), v, to + v * kLanes);
      }
    }
  }
}

// One contribution of g_ternary: a digit looks its value up.
template <Store kStore>
void decode_trits(const SignBlocks& blocks, SignIn wire, float* to) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(wire.codes);
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const float scale = get_float(wire.scales + 4 * b);
    HWY_ALIGN const float level[kLanes] = {0.0f - scale, 0.0f * scale, scale};
    const VF levels = hn::Load(DF(), level);
    for (std::size_t u = 0; u < kTritUnits; ++u, codes += kTritUnitBytes) {
      const Trits trits(codes);
      for (std::size_t i = 0; i < kTritsPerByte; ++i, to += kGroup) {
        VU digit[kGroupVectors];
        trits.group(i, digit);
        for (std::size_t v = 0; v < kGroupVectors; ++v) {
          const auto index = hn::IndicesFromVec(DF(), hn::BitCast(DI(), digit[v]));
          store_value<kStore>(hn::TableLookupLanes(levels, index), v, to + v * kLanes);
        }
      }
    }
  }
}

// What each level would be if all had voted with the majority; ties are drawn.
HWY_INLINE void vote(const SignBlocks& blocks, std::size_t b, std::size_t g,
                     std::uint32_t contributions, VF (&level)[kGroupVectors]) {
  Masks positive;
  Masks tie;
  for (std::size_t v = 0; v < kGroupVectors; ++v) {
    positive[v] = hn::Gt(level[v], hn::Zero(DF()));
    tie[v] = hn::Eq(level[v], hn::Zero(DF()));
  }
  if (contributions % 2 == 0) draw_signs(blocks.draws, blocks.first + b, g, tie, positive);
  const VF all = set(static_cast<float>(contributions));
  for (std::size_t v = 0; v < kGroupVectors; ++v) {
    level[v] = hn::IfThenElse(positive[v], all, hn::Neg(all));
  }
}

template <unsigned kWidth, Store kStore>
void decode_counts(const SignBlocks& blocks, const SignFormat& format, SignIn wire, float* to) {
  const auto contributions = static_cast<float>(format.contributions);
  const VF step = set(format.step());
  const VF offset = set(-contributions);
  CountReader<kWidth> reader(wire.codes);
  for (std::size_t b = 0; b < blocks.count; ++b) {
    const VF factor = set(get_float(wire.scales + 4 * b) / contributions);
    for (std::size_t g = 0; g < kSignGroups; ++g, to += kGroup) {
      VU code[kGroupVectors];
      reader.read(g, code);
      VF level[kGroupVectors];
      for (std::size_t v = 0; v < kGroupVectors; ++v) {
        level[v] = hn::MulAdd(to_float(code[v]), step, offset);
      }
      if (blocks.majority) vote(blocks, b, g, format.contributions, level);
      for (std::size_t v = 0; v < kGroupVectors; ++v) {
        // Adding zero turns -0 into +0.
        const VF value = hn::MulAdd(factor, level[v], hn::Zero(DF()));
        store_value<kStore>(value, v, to + v * kLanes);
      }
    }
  }
}

template <Store kStore>
void decode_to(const SignBlocks& blocks, const SignFormat& format, SignIn wire, float* values) {
  if (format.has_trits()) {
    decode_trits<kStore>(blocks, wire, values);
  } else if (format.width() == 1) {
    decode_bits<kStore>(blocks, wire, values);
  } else {
    with_width(format.width(), [&](auto width) HWY_ATTR {
      decode_counts<decltype(width)::value, kStore>(blocks, format, wire, values);
    });
  }
  if constexpr (kStore == Store::kStream) hwy::FlushStream();
}

void decode(const SignBlocks& blocks, const SignFormat& format, SignIn wire, float* values) {
  const bool aligned = values_to_alignment(values, sizeof(float)) == 0;
  if (format.width() > kMostVectorWidth) {
    count_reference().decode(blocks, format, wire, values);
  } else if (aligned && streams(blocks.count * kSignBlock * sizeof(float))) {
    decode_to<Store::kStream>(blocks, format, wire, values);
  } else {
    decode_to<Store::kPlain>(blocks, format, wire, values);
  }
}

void decode_add(const SignBlocks& blocks, const SignFormat& format, SignIn wire, float* values) {
  if (format.width() > kMostVectorWidth) {
    count_reference().decode_add(blocks, format, wire, values);
  } else {
    decode_to<Store::kAdd>(blocks, format, wire, values);
  }
}

// Units of trits are a whole number of vectors.
bool trits_are_valid(const std::byte* bytes, std::size_t size) {
  const hn::CappedTag<std::uint8_t, kTritUnitBytes> d;
  const auto* from = reinterpret_cast<const std::uint8_t*>(bytes);
  auto most = hn::Zero(d);
  for (std::size_t i = 0; i < size; i += hn::Lanes(d)) most = hn::Max(most, hn::LoadU(d, from + i));
  const auto limit = hn::Set(d, std::uint8_t{kMostTritByte});
  return hn::AllTrue(d, hn::Eq(hn::Max(most, limit), limit));
}

bool valid(const SignFormat& format, const std::byte* codes, std::size_t count) {
  if (format.has_trits()) return trits_are_valid(codes, format.code_bytes(count));
  if (format.most_code() + 1 == std::uint64_t{1} << format.width()) return true;
  if (format.width() > kMostVectorWidth) return count_reference().valid(format, codes, count);
  VU most = hn::Zero(DU());
  with_width(format.width(), [&most, codes, count](auto width) HWY_ATTR {
    CountReader<decltype(width)::value> reader(codes);
    for (std::size_t g = 0; g < groups_of(count); ++g) {
      VU code[kGroupVectors];
      reader.read(g, code);
      for (std::size_t v = 0; v < kGroupVectors; ++v) most = hn::Max(most, code[v]);
    }
  });
  const VU limit = set_u(static_cast<std::uint32_t>(format.most_code()));
  return hn::AllTrue(DU(), hn::Eq(hn::Max(most, limit), limit));
}

constexpr CountKernels kCountTable = {decode, decode_add, valid};

}  // namespace
#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const CountKernels& count_simd(Isa isa) { return *NF_SELECT_TABLE(isa, kCountTable); }

}  // namespace nf
#endif
