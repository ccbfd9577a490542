// Vector form of dynamiq. The peaks and scales of the next super-group are computed before the
// current one is quantised, which hides the latency of the chain from values to reciprocals.
#include "codec/dynamiq/dynamiq_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/dynamiq/dynamiq_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/dynamiq/draws-inl.h"
#include "codec/dynamiq/lattice-inl.h"
#include "codec/simd/codes-inl.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/random-inl.h"
#include "codec/simd/reduce-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"
#include "codec/wire_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

constexpr std::size_t kScales = kSuperGroup / kDynamiqGroup;
constexpr std::size_t kPacks = kSuperGroup / kPack;
constexpr std::size_t kRowVectors = kDynamiqGroup / kLanes;  // vectors in a group of 16

// The number of packs whose draws are made, and that are rounded, in parallel.
constexpr std::size_t kDrawPacks = kLanes == 16 ? 4 : 2;
constexpr std::size_t kRoundPacks = kLanes == 16 ? 4 : 1;

// The scales of a super-group, computed from its peaks.
struct Scales {
  alignas(64) float inverse[kScales];
  alignas(16) std::uint8_t scale[kScales];
  std::uint16_t unit;  // BF16; 0 or NaN if the super-group has no codes
  bool has_codes;
};

// The largest magnitude of each of the 16 groups.
HWY_INLINE void find_peaks(const float* centred, std::uint32_t* peaks) {
  VU rows[kScales][kRowVectors];
  for (std::size_t g = 0; g < kScales; ++g) {
    for (std::size_t v = 0; v < kRowVectors; ++v) {
      rows[g][v] = magnitude(load(centred + g * kDynamiqGroup + v * kLanes));
    }
  }
  reduce16(MaxOp(), rows, peaks);
}

HWY_INLINE void find_scales(const std::uint32_t* group_peaks, unsigned width, DrawWords draws,
                            Scales& out) {
  VU max_peak = hn::Load(DU(), group_peaks);
  for (std::size_t g = kLanes; g < kScales; g += kLanes) {
    max_peak = hn::Max(max_peak, hn::Load(DU(), group_peaks + g));
  }
  max_peak = hn::MaxOfLanes(DU(), max_peak);
  const std::uint32_t peak = hn::GetLane(max_peak);
  out.has_codes = peak >= kMinPeakBits && peak < kPoisonBits;
  if (HWY_UNLIKELY(!out.has_codes)) {
    out.unit = peak >= kPoisonBits ? kBfloat16Nan : 0;
    return;
  }
  const VF raw_unit = hn::Mul(from_bits(max_peak), set(kPeakToUnit));
  const VU rounded_up = hn::Add(bits(raw_unit), set_u(0xffffu));
  const VF unit = from_bits(hn::And(rounded_up, set_u(0xffff0000u)));
  out.unit = static_cast<std::uint16_t>(hn::GetLane(rounded_up) >> 16);
  const VF top = set(static_cast<float>((1u << (width - 1)) - 1));
  for (std::size_t g = 0; g < kScales; g += kLanes) {
    const VF group_peak = from_bits(hn::Load(DU(), group_peaks + g));
    const VU draw = hn::And(draws.next(), set_u(0xffffu));
    const VF u = hn::MulAdd(to_float(draw), set(0x1p-16f), set(0x1p-17f));
    const VF scale = hn::Min(hn::Floor(hn::Add(hn::Div(group_peak, unit), u)), set(255.0f));
    store_low_bytes(bits(hn::Add(scale, set(0x1p23f))), out.scale + g);
    const auto none = hn::Eq(scale, hn::Zero(DF()));
    const VF reach = hn::Max(group_peak, set(kMinGroupPeak));
    hn::Store(hn::IfThenZeroElse(none, hn::Div(top, reach)), DF(), out.inverse + g);
  }
}

HWY_INLINE void put_scales(const Scales& scales, std::byte* unit_at, std::byte* scales_at) {
  put_u16(scales.unit, unit_at);
  if (scales.has_codes) {
    std::memcpy(scales_at, scales.scale, kScales);
  } else {
    std::memset(scales_at, 0, kScales);
  }
}

// Writes all draws of a super-group to `to`. Also prefetches the data after `values`: between these
// long dependency chains, loads from memory do not queue up.
template <bool kCorrelated>
HWY_INLINE void make_draws(RoundingDraws<kCorrelated> draws, const float* values, float* to) {
  for (std::size_t p = 0; p < kPacks; p += kDrawPacks) {
    draws.template next<kDrawPacks>(to + p * kPack);
    for (std::size_t e = 0; e < kDrawPacks * kPack; e += 16) {
      prefetch_ahead(values + p * kPack + e);
    }
  }
}

template <unsigned kWidth, bool kUniform>
HWY_INLINE void quantise(const Scales& scales, const float* draws, float slope,
                         const float* centred, std::uint8_t* codes) {
  const Rounder<kWidth, kUniform> round(dynamiq_lattice(kWidth, kUniform), slope);
  constexpr std::size_t kVectors = kRoundPacks * kPackVectors;
  for (std::size_t p = 0; p < kPacks; p += kRoundPacks) {
    VF position[kVectors];
    VF draw[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t at = p * kPack + v * kLanes;
      position[v] = hn::Mul(load(centred + at), set(scales.inverse[2 * p + v / kRowVectors]));
      draw[v] = hn::Load(DF(), draws + at);
    }
    VU code[kVectors];
    round(position, draw, code);
    for (std::size_t r = 0; r < kRoundPacks; ++r) {
      VU pack[kPackVectors];
      for (std::size_t v = 0; v < kPackVectors; ++v) pack[v] = code[r * kPackVectors + v];
      codes = pack_codes(pack, kWidth, codes);
    }
  }
}

// Dispatches on the width. Returns the end of the codes.
template <bool kUniform>
HWY_INLINE std::uint8_t* quantise_at(unsigned width, const Scales& scales, const float* draws,
                                     float slope, const float* centred, std::uint8_t* codes) {
  const std::size_t bytes = kPacks * pack_bytes(width);
  if (HWY_UNLIKELY(!scales.has_codes)) {
    std::memset(codes, 0, bytes);
    return codes + bytes;
  }
  switch (width) {
    case 2: quantise<2, kUniform>(scales, draws, slope, centred, codes); break;
    case 4: quantise<4, kUniform>(scales, draws, slope, centred, codes); break;
    default: quantise<8, kUniform>(scales, draws, slope, centred, codes); break;
  }
  return codes + bytes;
}

// Decodes one super-group and calls sink(pack, values) for every 32 values. A poisoned super-group
// has a NaN unit and therefore NaN scales and values.
template <unsigned kWidth, bool kUniform, typename Sink>
HWY_INLINE void dequantise(const std::byte* unit_at, const std::byte* scales, const std::byte* wire,
                           float mean, Sink sink) {
  const DynamiqLattice& lattice = dynamiq_lattice(kWidth, kUniform);
  alignas(64) float steps[kScales];
  const VF unit = set(bfloat16_to_float(get_u16(unit_at)));
  for (std::size_t g = 0; g < kScales; g += kLanes) {
    const VU scale = load_bytes(reinterpret_cast<const std::uint8_t*>(scales) + g);
    const VF exact = hn::Mul(to_float(scale), unit);
    hn::Store(hn::Mul(exact, set(lattice.inverse_top)), DF(), steps + g);
  }
  const VF means = set(mean);
  const CodeValues<kWidth, kUniform> code_values(lattice);
  const auto* codes = reinterpret_cast<const std::uint8_t*>(wire);
  for (std::size_t p = 0; p < kPacks; ++p) {
    VF value[kPackVectors];
    codes = code_values.read(codes, value);
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      value[v] = hn::MulAdd(value[v], set(steps[2 * p + v / kRowVectors]), means);
    }
    sink(p, value);
  }
}

// Dispatches on the width. Returns the end of the codes.
template <bool kUniform, typename Sink>
HWY_INLINE const std::byte* dequantise_at(unsigned width, const std::byte* unit,
                                          const std::byte* scales, const std::byte* codes,
                                          float mean, Sink sink) {
  switch (width) {
    case 2: dequantise<2, kUniform>(unit, scales, codes, mean, sink); break;
    case 4: dequantise<4, kUniform>(unit, scales, codes, mean, sink); break;
    default: dequantise<8, kUniform>(unit, scales, codes, mean, sink); break;
  }
  return codes + kPacks * pack_bytes(width);
}

HWY_INLINE float mean_of(const SuperGroups& groups, std::size_t i, float contributions) {
  return contributions * bfloat16_to_float(get_u16(groups.statistics + i * kSuperGroupStatistics));
}

// Encodes the centred values prepare(i, buffer) of every super-group i. prepare() may write them to
// `buffer`.
template <bool kUniform, bool kCorrelated, typename Prepare>
HWY_INLINE void encode_prepared(const SuperGroups& groups, const DynamiqDraws& draws,
                                const float* values, DynamiqKernels::Out wire, Prepare prepare) {
  const VU strides = DrawWords::strides();
  // Double-buffered: the current super-group and the next one.
  alignas(64) float buffers[2][kSuperGroup];
  const float* centred[2];
  Scales scales[2];
  alignas(64) std::uint32_t peaks[kScales];
  alignas(64) float drawn[kSuperGroup];
  auto* codes = reinterpret_cast<std::uint8_t*>(wire.codes);
  for (std::size_t next = 0; next <= groups.count; ++next) {
    const std::size_t i = next - 1;
    if (next < groups.count) {
      centred[next % 2] = prepare(next, buffers[next % 2]);
      find_peaks(centred[next % 2], peaks);
    }
    if (next > 0) {
      make_draws(RoundingDraws<kCorrelated>(draws, groups.first + i, strides),
                 values + next * kSuperGroup, drawn);
    }
    if (next < groups.count) {
      const DrawKey key(draws.group_scale, groups.first + next);
      find_scales(peaks, groups.width_of(next), DrawWords(key, strides), scales[next % 2]);
    }
    if (next > 0) {
      put_scales(scales[i % 2], wire.units + 2 * i, wire.scales + kScales * i);
      codes = quantise_at<kUniform>(groups.width_of(i), scales[i % 2], drawn, draws.slope,
                                    centred[i % 2], codes);
    }
  }
}

template <bool kUniform, bool kCorrelated>
void encode_as(const SuperGroups& groups, const DynamiqDraws& draws, float contributions,
               const float* values, DynamiqKernels::Out wire) {
  const auto prepare = [&](std::size_t i, float* buffer) HWY_ATTR -> const float* {
    const float* from = values + i * kSuperGroup;
    const float mean = mean_of(groups, i, contributions);
    if (mean == 0) return from;  // the usual case
    for (std::size_t e = 0; e < kSuperGroup; e += kLanes) {
      hn::Store(hn::Sub(load(from + e), set(mean)), DF(), buffer + e);
    }
    return buffer;
  };
  encode_prepared<kUniform, kCorrelated>(groups, draws, values, wire, prepare);
}

template <bool kUniform, bool kCorrelated>
void decode_add_encode_as(const SuperGroups& groups, const DynamiqDraws& draws, float contributions,
                          float total, DynamiqKernels::In wire, const float* values,
                          DynamiqKernels::Out out) {
  const std::byte* codes = wire.codes;
  const auto prepare = [&](std::size_t i, float* buffer) HWY_ATTR -> const float* {
    const float* from = values + i * kSuperGroup;
    const float mean_out = mean_of(groups, i, total);
    const auto add_decoded = [&](auto centre) HWY_ATTR {
      const auto sink = [=](std::size_t p, const VF(&value)[kPackVectors]) HWY_ATTR {
        for (std::size_t v = 0; v < kPackVectors; ++v) {
          const std::size_t at = p * kPack + v * kLanes;
          hn::Store(centre(hn::Add(load(from + at), value[v])), DF(), buffer + at);
        }
      };
      codes =
          dequantise_at<kUniform>(groups.width_of(i), wire.units + 2 * i, wire.scales + kScales * i,
                                  codes, mean_of(groups, i, contributions), sink);
    };
    if (mean_out == 0) {
      add_decoded([](VF sum) HWY_ATTR { return sum; });
    } else {
      add_decoded([mean = set(mean_out)](VF sum) HWY_ATTR { return hn::Sub(sum, mean); });
    }
    return buffer;
  };
  encode_prepared<kUniform, kCorrelated>(groups, draws, values, out, prepare);
}

template <bool kUniform, bool kAdd, bool kStream>
void decode_to(const SuperGroups& groups, float contributions, DynamiqKernels::In wire,
               float* values) {
  const std::byte* codes = wire.codes;
  for (std::size_t i = 0; i < groups.count; ++i) {
    float* to = values + i * kSuperGroup;
    const auto sink = [to](std::size_t p, const VF(&value)[kPackVectors]) HWY_ATTR {
      for (std::size_t v = 0; v < kPackVectors; ++v) {
        float* at = to + p * kPack + v * kLanes;
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
    codes =
        dequantise_at<kUniform>(groups.width_of(i), wire.units + 2 * i, wire.scales + kScales * i,
                                codes, mean_of(groups, i, contributions), sink);
  }
  if (kStream) hwy::FlushStream();
}

void encode(const SuperGroups& groups, const DynamiqDraws& draws, bool uniform, float contributions,
            const float* values, DynamiqKernels::Out wire) {
  const bool correlated = draws.strata > 1;
  const auto run = uniform ? (correlated ? encode_as<true, true> : encode_as<true, false>)
                           : (correlated ? encode_as<false, true> : encode_as<false, false>);
  run(groups, draws, contributions, values, wire);
}

void decode(const SuperGroups& groups, bool uniform, float contributions, DynamiqKernels::In wire,
            float* values) {
  const bool aligned = values_to_alignment(values, sizeof(float)) == 0;
  const bool stream = aligned && streams(groups.count * kSuperGroup * sizeof(float));
  const auto run = uniform
                       ? (stream ? decode_to<true, false, true> : decode_to<true, false, false>)
                       : (stream ? decode_to<false, false, true> : decode_to<false, false, false>);
  run(groups, contributions, wire, values);
}

void decode_add(const SuperGroups& groups, bool uniform, float contributions,
                DynamiqKernels::In wire, float* values) {
  const auto run = uniform ? decode_to<true, true, false> : decode_to<false, true, false>;
  run(groups, contributions, wire, values);
}

void decode_add_encode(const SuperGroups& groups, const DynamiqDraws& draws, bool uniform,
                       float contributions, float total, DynamiqKernels::In wire,
                       const float* values, DynamiqKernels::Out out) {
  const bool correlated = draws.strata > 1;
  const auto run =
      uniform
          ? (correlated ? decode_add_encode_as<true, true> : decode_add_encode_as<true, false>)
          : (correlated ? decode_add_encode_as<false, true> : decode_add_encode_as<false, false>);
  run(groups, draws, contributions, total, wire, values, out);
}

constexpr DynamiqKernels kDynamiq = {encode, decode, decode_add, decode_add_encode};

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const DynamiqKernels& dynamiq_simd(Isa isa) { return *NF_SELECT_TABLE(isa, kDynamiq); }

}  // namespace nf
#endif
