// Vector form of waterfill. Encoding computes the scales of the next super-group before it
// quantises the current one, which hides the latency of the chain from peaks to reciprocals.
#include "codec/waterfill/waterfill_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/waterfill/waterfill_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/simd/codes-inl.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/random-inl.h"
#include "codec/simd/reduce-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"
#include "codec/waterfill/scales-inl.h"
#include "codec/wire_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA

// The dithers of the elements of a pack.
HWY_INLINE void dithers_of(DrawWords& words, VF (&dither)[kPackVectors]) {
  const VU draw = set_u(0x007fff80u);
  const VU rest = set_u(kDitherBits);
  for (std::size_t v = 0; v < kHalfVectors; ++v) {
    const VU word = words.next();
    dither[v] = from_bits(and_or(hn::ShiftLeft<7>(word), draw, rest));
    dither[v + kHalfVectors] = from_bits(and_or(hn::ShiftRight<9>(word), draw, rest));
  }
}

// x - mean, or x if the mean is known to be 0: the usual case, and one instruction less.
template <bool kCentre>
HWY_INLINE VF centre(VF x, VF mean) {
  return kCentre ? hn::Sub(x, mean) : x;
}

template <unsigned kWidth, bool kCentre>
HWY_INLINE void quantise(const Scales& scales, DrawWords words, VF mean, const float* values,
                         std::uint8_t* codes) {
  if (HWY_UNLIKELY(!scales.has_codes)) {
    std::memset(codes, 0, kPacks * pack_bytes(kWidth));
    return;
  }
  // The addition rounds to the nearest integer and leaves it, plus the centre, in the low bits.
  const VF magic = set(0x1.8p23f + WaterfillGrid(kWidth).centre);
  for (std::size_t p = 0; p < kPacks; ++p) {
    const VF inverse[2] = {set(scales.inverse[2 * p]), set(scales.inverse[2 * p + 1])};
    VF dither[kPackVectors];
    dithers_of(words, dither);
    VU code[kPackVectors];
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      const VF centred = centre<kCentre>(load(values + p * kPack + v * kLanes), mean);
      code[v] = bits(hn::Add(hn::MulAdd(centred, inverse[v / kHalfVectors], dither[v]), magic));
    }
    codes = pack_codes(code, kWidth, codes);
  }
}

// Decodes one super-group and calls sink(pack, values) for every 32 values. A poisoned super-group
// has a NaN unit and therefore NaN steps and values.
template <unsigned kWidth, typename Sink>
HWY_INLINE void dequantise(const std::byte* unit_at, const std::byte* scales, const std::byte* wire,
                           DrawWords words, float mean, Sink sink) {
  constexpr WaterfillGrid grid(kWidth);
  alignas(64) float steps[kScales];
  alignas(64) float bases[kScales];
  alignas(16) std::uint8_t scale_codes[kScales];
  spread_nibbles(scales, scale_codes);
  const auto unit = hn::Set(DG(), bfloat16_to_float(get_u16(unit_at)));
  for (std::size_t g = 0; g < kScales; g += hn::Lanes(DG())) {
    const auto code = hn::ConvertTo(DG(), hn::PromoteTo(DGI(), hn::LoadU(DG8(), scale_codes + g)));
    const auto zero = hn::Eq(code, hn::Zero(DG()));
    const auto scale = hn::IfThenZeroElse(zero, hn::Add(code, hn::Set(DG(), 4.0f)));
    const auto exact = hn::Mul(scale, unit);
    const auto step = hn::Mul(exact, hn::Set(DG(), grid.step));
    hn::Store(step, DG(), steps + g);
    hn::Store(hn::MulAdd(hn::Set(DG(), -grid.centre), step, hn::Set(DG(), mean)), DG(), bases + g);
  }
  const auto* codes = reinterpret_cast<const std::uint8_t*>(wire);
  for (std::size_t p = 0; p < kPacks; ++p) {
    const VF step[2] = {set(steps[2 * p]), set(steps[2 * p + 1])};
    const VF base[2] = {set(bases[2 * p]), set(bases[2 * p + 1])};
    VU code[kPackVectors];
    codes = unpack_codes(codes, kWidth, code);
    VF dither[kPackVectors];
    dithers_of(words, dither);
    VF value[kPackVectors];
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      const std::size_t half = v / kHalfVectors;
      value[v] = hn::MulAdd(hn::Sub(to_float(code[v]), dither[v]), step[half], base[half]);
    }
    sink(p, value);
  }
}

HWY_INLINE float mean_of(const SuperGroups& groups, std::size_t i, float contributions) {
  return contributions * groups.mean_of(i);
}

template <bool kCentre>
HWY_INLINE void find_peaks(const float* values, VF mean, Peaks& peaks) {
  for (std::size_t p = 0; p < kPacks; ++p) {
    VF x[kPackVectors];
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      x[v] = centre<kCentre>(load(values + p * kPack + v * kLanes), mean);
      if (v * kLanes % 16 == 0) prefetch_ahead(values + p * kPack + v * kLanes);
    }
    peaks.set(p, x);
  }
}

// The loops below run over super-groups of one width, so that constants stay in registers.

template <unsigned kWidth>
void encode_run(const SuperGroups& groups, const DrawStream& draws, float contributions,
                const float* values, MessageKernels::Out wire) {
  const VU strides = DrawWords::strides();
  Scales scales[2];  // double-buffered: the current super-group and the next one
  const auto prepare = [&](std::size_t i) HWY_ATTR {
    const float mean = mean_of(groups, i, contributions);
    const float* from = values + i * kSuperGroup;
    Peaks peaks;
    if (mean != 0) {
      find_peaks<true>(from, set(mean), peaks);
    } else {
      find_peaks<false>(from, set(mean), peaks);
    }
    find_scales(peaks, WaterfillGrid(kWidth).step, scales[i % 2]);
    return mean;
  };
  float next_mean = prepare(0);
  auto* codes = reinterpret_cast<std::uint8_t*>(wire.codes);
  for (std::size_t i = 0; i < groups.count; ++i) {
    const Scales& current = scales[i % 2];
    const float mean = next_mean;
    if (i + 1 < groups.count) next_mean = prepare(i + 1);
    const float* from = values + i * kSuperGroup;
    const DrawWords words(DrawKey(draws, groups.first + i), strides);
    put_scales(current, wire.units + 2 * i, wire.scales + kScaleBytes * i);
    if (mean != 0) {
      quantise<kWidth, true>(current, words, set(mean), from, codes);
    } else {
      quantise<kWidth, false>(current, words, set(mean), from, codes);
    }
    codes += kPacks * pack_bytes(kWidth);
  }
}

enum class Sink { kStore, kStream, kAdd };

template <unsigned kWidth, Sink kSink>
void decode_run(const SuperGroups& groups, const DrawStream& draws, float contributions,
                MessageKernels::In wire, float* values) {
  const VU strides = DrawWords::strides();
  for (std::size_t i = 0; i < groups.count; ++i) {
    const DrawWords words(DrawKey(draws, groups.first + i), strides);
    float* to = values + i * kSuperGroup;
    dequantise<kWidth>(wire.units + 2 * i, wire.scales + kScaleBytes * i,
                       wire.codes + kPacks * pack_bytes(kWidth) * i, words,
                       mean_of(groups, i, contributions),
                       [to](std::size_t p, const VF(&value)[kPackVectors]) HWY_ATTR {
                         for (std::size_t v = 0; v < kPackVectors; ++v) {
                           float* at = to + p * kPack + v * kLanes;
                           if (kSink == Sink::kAdd) {
                             if (v * kLanes % 16 == 0) prefetch_ahead(at);
                             hn::StoreU(hn::Add(load(at), value[v]), DF(), at);
                           } else if (kSink == Sink::kStream) {
                             hn::Stream(value[v], DF(), at);
                           } else {
                             hn::StoreU(value[v], DF(), at);
                           }
                         }
                       });
  }
}

// Decodes super-group i of a message, adds the values and computes the scales of the centred sum.
template <unsigned kWidth, bool kCentre>
HWY_INLINE void sum_up(const SuperGroups& groups, const DrawStream& draws, float contributions,
                       float total, MessageKernels::In wire, const float* values, std::size_t i,
                       VU strides, float* sum, Scales& scales) {
  const VF mean_out = set(mean_of(groups, i, total));
  const float* from = values + i * kSuperGroup;
  Peaks peaks;
  dequantise<kWidth>(wire.units + 2 * i, wire.scales + kScaleBytes * i,
                     wire.codes + kPacks * pack_bytes(kWidth) * i,
                     DrawWords(DrawKey(draws, groups.first + i), strides),
                     mean_of(groups, i, contributions),
                     [&](std::size_t p, const VF(&value)[kPackVectors]) HWY_ATTR {
                       VF centred[kPackVectors];
                       for (std::size_t v = 0; v < kPackVectors; ++v) {
                         const std::size_t at = p * kPack + v * kLanes;
                         if (v * kLanes % 16 == 0) prefetch_ahead(from + at);
                         centred[v] = centre<kCentre>(hn::Add(load(from + at), value[v]), mean_out);
                         hn::Store(centred[v], DF(), sum + at);
                       }
                       peaks.set(p, centred);
                     });
  find_scales(peaks, WaterfillGrid(kWidth).step, scales);
}

template <unsigned kWidth>
void fused_run(const SuperGroups& groups, const DrawStream& draws_in, const DrawStream& draws_out,
               float contributions, float total, MessageKernels::In wire, const float* values,
               MessageKernels::Out out) {
  const VU strides = DrawWords::strides();
  alignas(64) float sums[2][kSuperGroup];  // double-buffered: the current super-group and the next
  Scales scales[2];
  const auto prepare = [&](std::size_t i) HWY_ATTR {
    if (mean_of(groups, i, 1.0f) != 0) {
      sum_up<kWidth, true>(groups, draws_in, contributions, total, wire, values, i, strides,
                           sums[i % 2], scales[i % 2]);
    } else {
      sum_up<kWidth, false>(groups, draws_in, contributions, total, wire, values, i, strides,
                            sums[i % 2], scales[i % 2]);
    }
  };
  prepare(0);
  for (std::size_t i = 0; i < groups.count; ++i) {
    if (i + 1 < groups.count) prepare(i + 1);
    put_scales(scales[i % 2], out.units + 2 * i, out.scales + kScaleBytes * i);
    quantise<kWidth, false>(
        scales[i % 2], DrawWords(DrawKey(draws_out, groups.first + i), strides), hn::Zero(DF()),
        sums[i % 2], reinterpret_cast<std::uint8_t*>(out.codes) + kPacks * pack_bytes(kWidth) * i);
  }
}

// Calls work(run, first) for every run of super-groups of one width.
template <typename Work>
HWY_INLINE void for_each_width(const SuperGroups& groups, Work work) {
  for (std::size_t first = 0; first < groups.count;) {
    const unsigned width = groups.width_of(first);
    SuperGroups run = groups.from(first);
    run.width = width;
    std::size_t end = groups.widths == nullptr ? groups.count : first + 1;
    while (end < groups.count && groups.widths[end] == width) ++end;
    run.count = end - first;
    work(run, first);
    first = end;
  }
}

template <typename Byte>
HWY_INLINE void advance(SuperGroupWire<Byte>& wire, const SuperGroups& run) {
  if (run.width == 0) return;
  wire.units += 2 * run.count;
  wire.scales += kScaleBytes * run.count;
  wire.codes += kPacks * pack_bytes(run.width) * run.count;
}

// A table of functions by width.
#define NF_BY_WIDTH(name)                                                                     \
  {                                                                                           \
    nullptr, nullptr, name(2), name(3), name(4), name(5), name(6), name(7), name(8), name(9), \
        name(10)                                                                              \
  }

void encode(const SuperGroups& groups, const DrawStream& draws, float contributions,
            const float* values, MessageKernels::Out wire) {
#define NF_FORM(width) encode_run<width>
  static constexpr decltype(&encode_run<2>) kRuns[] = NF_BY_WIDTH(NF_FORM);
#undef NF_FORM
  for_each_width(groups, [&](const SuperGroups& run, std::size_t first) HWY_ATTR {
    if (run.width != 0) {
      kRuns[run.width](run, draws, contributions, values + first * kSuperGroup, wire);
    }
    advance(wire, run);
  });
}

template <Sink kSink>
HWY_INLINE void decode_to(const SuperGroups& groups, const DrawStream& draws, float contributions,
                          MessageKernels::In wire, float* values) {
#define NF_FORM(width) decode_run<width, kSink>
  static constexpr decltype(&decode_run<2, kSink>) kRuns[] = NF_BY_WIDTH(NF_FORM);
#undef NF_FORM
  for_each_width(groups, [&](const SuperGroups& run, std::size_t first) HWY_ATTR {
    float* to = values + first * kSuperGroup;
    if (run.width != 0) {
      kRuns[run.width](run, draws, contributions, wire, to);
    } else if (kSink == Sink::kAdd) {
      waterfill_reference().decode_add(run, draws, contributions, wire, to);
    } else {
      waterfill_reference().decode(run, draws, contributions, wire, to);
    }
    advance(wire, run);
  });
}

void decode(const SuperGroups& groups, const DrawStream& draws, float contributions,
            MessageKernels::In wire, float* values) {
  const bool aligned = values_to_alignment(values, sizeof(float)) == 0;
  if (aligned && streams(groups.count * kSuperGroup * sizeof(float))) {
    decode_to<Sink::kStream>(groups, draws, contributions, wire, values);
    hwy::FlushStream();
  } else {
    decode_to<Sink::kStore>(groups, draws, contributions, wire, values);
  }
}

void decode_add(const SuperGroups& groups, const DrawStream& draws, float contributions,
                MessageKernels::In wire, float* values) {
  decode_to<Sink::kAdd>(groups, draws, contributions, wire, values);
}

void decode_add_encode(const SuperGroups& groups, const DrawStream& draws_in,
                       const DrawStream& draws_out, float contributions, float total,
                       MessageKernels::In wire, const float* values, MessageKernels::Out out) {
#define NF_FORM(width) fused_run<width>
  static constexpr decltype(&fused_run<2>) kRuns[] = NF_BY_WIDTH(NF_FORM);
#undef NF_FORM
  for_each_width(groups, [&](const SuperGroups& run, std::size_t first) HWY_ATTR {
    if (run.width != 0) {
      kRuns[run.width](run, draws_in, draws_out, contributions, total, wire,
                       values + first * kSuperGroup, out);
    }
    advance(wire, run);
    advance(out, run);
  });
}

#undef NF_BY_WIDTH

constexpr MessageKernels kWaterfill = {encode, decode, decode_add, decode_add_encode};

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const MessageKernels& waterfill_simd(Isa isa) { return *NF_SELECT_TABLE(isa, kWaterfill); }

}  // namespace nf
#endif
