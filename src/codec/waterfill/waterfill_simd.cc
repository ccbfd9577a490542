// Vector form of waterfill. Scales of the next super-group are found before the current one is
// quantised: the long chain from peaks to reciprocals then runs in the shadow of other work.
#include "codec/waterfill/waterfill_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/waterfill/waterfill_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/random-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"
#include "codec/wire_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

constexpr std::size_t kGroups = kSuperGroup / kGroup;
constexpr std::size_t kHalfVectors = kGroupVectors / 2;

// What a super-group's peaks lead to.
struct Scales {
  alignas(32) float inverse[kGroups];
  alignas(8) std::uint8_t scale[kGroups];
  std::uint16_t unit;  // BF16; 0 or NaN where the super-group has no codes of its own
  bool has_codes;
};

// The sixteen partial peaks of one group.
struct Peaks {
  VU rows[kGroups][16 / kLanes];

  HWY_INLINE void set(std::size_t g, const VF (&x)[kGroupVectors]) {
    for (std::size_t v = 0; v < 16 / kLanes; ++v) {
      rows[g][v] = hn::Max(magnitude(x[v]), magnitude(x[v + 16 / kLanes]));
    }
  }
};

HWY_INLINE Scales scales_of(const Peaks& peaks, const WaterfillGrid& grid) {
  alignas(32) std::uint32_t bits_of[kGroups];
  reduce8(MaxOp(), peaks.rows, bits_of);
  std::uint32_t peak = 0;
  for (const std::uint32_t b : bits_of) peak = b > peak ? b : peak;

  Scales out;
  out.has_codes = peak >= kLeastPeakBits && peak < kPoisonBits;
  if (!out.has_codes) {
    out.unit = peak >= kPoisonBits ? kBfloat16Nan : 0;
    return out;
  }
  out.unit = float_to_bfloat16_up(std::bit_cast<float>(peak) * kPeakToUnit);
  const hn::CappedTag<float, kGroups> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const auto unit = hn::Set(d, bfloat16_to_float(out.unit));
  for (std::size_t g = 0; g < kGroups; g += hn::Lanes(d)) {
    const auto group_peak = hn::BitCast(d, hn::Load(di, reinterpret_cast<std::int32_t*>(bits_of) + g));
    auto scale = hn::ConvertTo(di, hn::Div(group_peak, unit));
    const auto low = hn::Lt(hn::Mul(hn::ConvertTo(d, scale), unit), group_peak);
    scale = hn::Sub(scale, hn::BitCast(di, hn::VecFromMask(d, low)));  // a true lane is -1
    scale = hn::Min(scale, hn::Set(di, 255));
    hn::StoreU(hn::DemoteTo(d8, scale), d8, out.scale + g);
    const auto step = hn::Mul(hn::Mul(hn::ConvertTo(d, scale), unit), hn::Set(d, grid.step));
    const auto zero = hn::Eq(step, hn::Zero(d));
    const auto inverse = hn::IfThenZeroElse(zero, hn::Div(hn::Set(d, 1.0f), step));
    hn::Store(inverse, d, out.inverse + g);
  }
  return out;
}

// The dithered offsets of the 32 elements of a group.
HWY_INLINE void offsets_of(DrawWords& words, VF offset, VF (&w)[kGroupVectors]) {
  const VF unit = set(kDrawUnit);
  for (std::size_t v = 0; v < kHalfVectors; ++v) {
    const VU word = words.next();
    w[v] = hn::MulAdd(to_float(hn::And(word, set_u(0xffff))), unit, offset);
    w[v + kHalfVectors] = hn::MulAdd(to_float(hn::ShiftRight<16>(word)), unit, offset);
  }
}

template <unsigned kWidth>
HWY_INLINE void quantise(const Scales& scales, DrawWords words, VF mean, const float* values,
                         std::uint8_t* codes) {
  constexpr WaterfillGrid grid(kWidth);
  if (!scales.has_codes) {
    std::memset(codes, 0, kGroups * group_bytes(kWidth));
    return;
  }
  const VF offset = set(grid.offset);
  const VF top = set(grid.top);
  const VF magic = set(0x1p23f);  // adding it leaves the nearest integer in the low bits
  for (std::size_t g = 0; g < kGroups; ++g) {
    const VF inverse = set(scales.inverse[g]);
    VF w[kGroupVectors];
    offsets_of(words, offset, w);
    VU code[kGroupVectors];
    for (std::size_t v = 0; v < kGroupVectors; ++v) {
      const VF centred = hn::Sub(load(values + g * kGroup + v * kLanes), mean);
      const VF position = hn::MulAdd(centred, inverse, w[v]);
      const VF clamped = hn::Min(hn::Max(position, hn::Zero(DF())), top);
      code[v] = bits(hn::Add(clamped, magic));
    }
    codes = pack_codes(code, kWidth, codes);
  }
}

// Reads the codes of one super-group, hands out its decoded values a vector at a time.
template <unsigned kWidth, typename Sink>
HWY_INLINE void dequantise(const std::byte* unit_at, const std::byte* scales, const std::byte* wire,
                           DrawWords words, VF mean, Sink sink) {
  constexpr WaterfillGrid grid(kWidth);
  const std::uint16_t unit_bits = get_u16(unit_at);
  // A poisoned super-group has codes of zero; a NaN step makes every value NaN.
  const float unit = bfloat16_to_float(unit_bits);
  const VF offset = set(grid.offset);
  const auto* codes = reinterpret_cast<const std::uint8_t*>(wire);
  for (std::size_t g = 0; g < kGroups; ++g) {
    const VF step = set(static_cast<float>(std::to_integer<int>(scales[g])) * unit * grid.step);
    VU code[kGroupVectors];
    codes = unpack_codes(codes, kWidth, code);
    VF w[kGroupVectors];
    offsets_of(words, offset, w);
    VF value[kGroupVectors];
    for (std::size_t v = 0; v < kGroupVectors; ++v) {
      value[v] = hn::MulAdd(hn::Sub(to_float(code[v]), w[v]), step, mean);
    }
    sink(g, value);
  }
}

HWY_INLINE VF mean_of(const SuperGroups& groups, std::size_t i, float contributions) {
  const float mean = bfloat16_to_float(get_u16(groups.statistics + i * kSuperGroupStatistics));
  return set(contributions * mean);
}

// Calls work<width>() for a width known only at run time.
#define NF_WITH_WIDTH(width, call)   \
  switch (width) {                   \
    case 2: call(2); break;          \
    case 3: call(3); break;          \
    case 4: call(4); break;          \
    case 5: call(5); break;          \
    case 6: call(6); break;          \
    case 7: call(7); break;          \
    case 8: call(8); break;          \
    case 9: call(9); break;          \
    default: call(10); break;        \
  }

HWY_INLINE Peaks peaks_of(const float* values, VF mean) {
  Peaks peaks;
  for (std::size_t g = 0; g < kGroups; ++g) {
    VF x[kGroupVectors];
    for (std::size_t v = 0; v < kGroupVectors; ++v) {
      x[v] = hn::Sub(load(values + g * kGroup + v * kLanes), mean);
      if (v * kLanes % 16 == 0) prefetch_ahead(values + g * kGroup + v * kLanes);
    }
    peaks.set(g, x);
  }
  return peaks;
}

HWY_INLINE void put_scales(const Scales& scales, std::byte* unit_at, std::byte* scales_at) {
  put_u16(scales.unit, unit_at);
  if (scales.has_codes) {
    std::memcpy(scales_at, scales.scale, kGroups);
  } else {
    std::memset(scales_at, 0, kGroups);
  }
}

void encode(const SuperGroups& groups, const DrawStream& draws, float contributions,
            const float* values, WaterfillKernels::Out wire) {
  if (groups.count == 0) return;
  const VU strides = DrawWords::strides();
  VF mean = mean_of(groups, 0, contributions);
  Scales scales = scales_of(peaks_of(values, mean), WaterfillGrid(groups.width_of(0)));
  auto* codes = reinterpret_cast<std::uint8_t*>(wire.codes);
  for (std::size_t i = 0; i < groups.count; ++i) {
    const Scales current = scales;
    const VF current_mean = mean;
    const float* from = values + i * kSuperGroup;
    if (i + 1 < groups.count) {
      mean = mean_of(groups, i + 1, contributions);
      scales = scales_of(peaks_of(from + kSuperGroup, mean), WaterfillGrid(groups.width_of(i + 1)));
    }
    const unsigned width = groups.width_of(i);
    const DrawWords words(DrawKey(draws, groups.first + i), strides);
    put_scales(current, wire.units + 2 * i, wire.scales + kGroups * i);
#define NF_CALL(w) quantise<w>(current, words, current_mean, from, codes)
    NF_WITH_WIDTH(width, NF_CALL)
#undef NF_CALL
    codes += kGroups * group_bytes(width);
  }
}

template <bool kAdd, bool kStream>
void decode_to(const SuperGroups& groups, const DrawStream& draws, float contributions,
               WaterfillKernels::In wire, float* values) {
  const VU strides = DrawWords::strides();
  const std::byte* codes = wire.codes;
  for (std::size_t i = 0; i < groups.count; ++i) {
    const unsigned width = groups.width_of(i);
    const VF mean = mean_of(groups, i, contributions);
    const DrawWords words(DrawKey(draws, groups.first + i), strides);
    float* to = values + i * kSuperGroup;
    const auto sink = [to](std::size_t g, const VF(&value)[kGroupVectors]) HWY_ATTR {
      for (std::size_t v = 0; v < kGroupVectors; ++v) {
        float* at = to + g * kGroup + v * kLanes;
        if (kAdd) {
          if (v * kLanes % 16 == 0) prefetch_ahead(at);
          hn::StoreU(hn::Add(load(at), value[v]), DF(), at);
        } else if (kStream) {
          hn::Stream(value[v], DF(), at);
        } else {
          hn::StoreU(value[v], DF(), at);
        }
      }
    };
    const std::byte* unit = wire.units + 2 * i;
    const std::byte* scales = wire.scales + kGroups * i;
#define NF_CALL(w) dequantise<w>(unit, scales, codes, words, mean, sink)
    NF_WITH_WIDTH(width, NF_CALL)
#undef NF_CALL
    codes += kGroups * group_bytes(width);
  }
  if (kStream) hwy::FlushStream();
}

void decode(const SuperGroups& groups, const DrawStream& draws, float contributions,
            WaterfillKernels::In wire, float* values) {
  const bool aligned = values_to_alignment(values, sizeof(float)) == 0;
  if (aligned && streams(groups.count * kSuperGroup * sizeof(float))) {
    decode_to<false, true>(groups, draws, contributions, wire, values);
  } else {
    decode_to<false, false>(groups, draws, contributions, wire, values);
  }
}

void decode_add(const SuperGroups& groups, const DrawStream& draws, float contributions,
                WaterfillKernels::In wire, float* values) {
  decode_to<true, false>(groups, draws, contributions, wire, values);
}

void decode_add_encode(const SuperGroups& groups, const DrawStream& draws_in,
                       const DrawStream& draws_out, float contributions, WaterfillKernels::In wire,
                       const float* values, WaterfillKernels::Out out) {
  if (groups.count == 0) return;
  const VU strides = DrawWords::strides();
  // Sums of the current super-group and of the next one.
  alignas(64) float sums[2][kSuperGroup];
  Peaks peaks;
  const std::byte* codes_in = wire.codes;

  const auto sum_up = [&](std::size_t i) HWY_ATTR {
    const unsigned width = groups.width_of(i);
    const VF mean_in = mean_of(groups, i, contributions);
    const VF mean_out = mean_of(groups, i, contributions + 1.0f);
    const DrawWords words(DrawKey(draws_in, groups.first + i), strides);
    const float* from = values + i * kSuperGroup;
    float* sum = sums[i % 2];
    const auto sink = [from, sum, mean_out, &peaks](std::size_t g,
                                                    const VF(&value)[kGroupVectors]) HWY_ATTR {
      VF centred[kGroupVectors];
      for (std::size_t v = 0; v < kGroupVectors; ++v) {
        const std::size_t at = g * kGroup + v * kLanes;
        if (v * kLanes % 16 == 0) prefetch_ahead(from + at);
        const VF total = hn::Add(load(from + at), value[v]);
        hn::Store(total, DF(), sum + at);
        centred[v] = hn::Sub(total, mean_out);
      }
      peaks.set(g, centred);
    };
    const std::byte* unit = wire.units + 2 * i;
    const std::byte* scales_in = wire.scales + kGroups * i;
#define NF_CALL(w) dequantise<w>(unit, scales_in, codes_in, words, mean_in, sink)
    NF_WITH_WIDTH(width, NF_CALL)
#undef NF_CALL
    codes_in += kGroups * group_bytes(width);
    return scales_of(peaks, WaterfillGrid(width));
  };

  Scales scales = sum_up(0);
  auto* codes_out = reinterpret_cast<std::uint8_t*>(out.codes);
  for (std::size_t i = 0; i < groups.count; ++i) {
    const Scales current = scales;
    if (i + 1 < groups.count) scales = sum_up(i + 1);
    const unsigned width = groups.width_of(i);
    const VF mean_out = mean_of(groups, i, contributions + 1.0f);
    const DrawWords words(DrawKey(draws_out, groups.first + i), strides);
    put_scales(current, out.units + 2 * i, out.scales + kGroups * i);
#define NF_CALL(w) quantise<w>(current, words, mean_out, sums[i % 2], codes_out)
    NF_WITH_WIDTH(width, NF_CALL)
#undef NF_CALL
    codes_out += kGroups * group_bytes(width);
  }
}

#undef NF_WITH_WIDTH

constexpr WaterfillKernels kWaterfill = {encode, decode, decode_add, decode_add_encode};

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const WaterfillKernels& waterfill_simd(Isa isa) { return *NF_SELECT_TABLE(isa, kWaterfill); }

}  // namespace nf
#endif
