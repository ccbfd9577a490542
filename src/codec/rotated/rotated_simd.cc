// Vector form of rotated.
#include "codec/rotated/rotated_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/rotated/rotated_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/rotated/rotation-inl.h"
#include "codec/simd/codes-inl.h"
#include "codec/simd/lanes-inl.h"
#include "codec/simd/select.h"
#include "codec/simd/stream-inl.h"
#include "codec/wire_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace nf {
namespace HWY_NAMESPACE {
#if HWY_NATIVE_FMA
namespace {  // waterfill_simd.cc defines functions of the same names and types

// A table of kCount numbers, a power of two, indexed by lanes.
template <std::size_t kCount>
class LookupTable {
 public:
  explicit HWY_INLINE LookupTable(const float* from) : from_(from) {
    if constexpr (kCount <= kLanes) {
      alignas(64) float padded[kLanes];
      for (std::size_t i = 0; i < kLanes; ++i) padded[i] = from[i % kCount];
      first_ = hn::Load(DF(), padded);
    } else if constexpr (kCount == 2 * kLanes) {
      first_ = load(from);
      second_ = load(from + kLanes);
    }
  }

  HWY_INLINE VF operator[](VU index) const {
    if constexpr (kCount <= kLanes) {
      return hn::TableLookupLanes(first_, hn::IndicesFromVec(DF(), index));
    }
#if HWY_TARGET == HWY_AVX3
    if constexpr (kCount == 2 * kLanes) {
      return VF{_mm512_permutex2var_ps(first_.raw, index.raw, second_.raw)};
    }
#endif
    return hn::GatherIndex(DF(), from_, hn::BitCast(DI(), index));
  }

 private:
  const float* const from_;
  VF first_;
  VF second_;
};

// The quantiser of a width. Keep it outside of loops.
template <unsigned kWidth>
class Quantiser {
 public:
  HWY_INLINE Quantiser()
      : levels_(rotated_levels_of(kWidth)), thresholds_(rotated_thresholds_of(kWidth)) {}

  // The code of z and the product of |z| and its level.
  HWY_INLINE VU code(VF z, VF& term) const {
    const VF size = from_bits(magnitude(z));
    VU index = hn::Zero(DU());
    for (std::size_t step = kLevels / 2; step > 0; step /= 2) {
      const VU next = hn::Or(index, set_u(static_cast<std::uint32_t>(step)));
      const VF threshold =
          step == kLevels / 2 ? set(rotated_thresholds_of(kWidth)[step]) : thresholds_[next];
      index = hn::IfThenElse(hn::RebindMask(DU(), hn::Ge(size, threshold)), next, index);
    }
    term = hn::Mul(size, levels_[index]);
    return hn::Or(index, hn::And(hn::ShiftRight<32 - kWidth>(bits(z)), set_u(kLevels)));
  }

  HWY_INLINE VF level(VU code) const {
    const VF size = levels_[hn::And(code, set_u(kLevels - 1))];
    return from_bits(
        hn::Or(bits(size), hn::And(hn::ShiftLeft<32 - kWidth>(code), set_u(0x80000000u))));
  }

 private:
  static constexpr std::uint32_t kLevels = rotated_levels(kWidth);
  const LookupTable<kLevels> levels_;
  const LookupTable<kLevels> thresholds_;
};

template <unsigned kWidth>
struct Constants {
  const VU strides = DrawWords::strides();
  const LaneSigns lanes;
  const Quantiser<kWidth> quantiser;

  // GCC compiles a defaulted constructor without the target's instructions.
  HWY_INLINE Constants() {}
};

template <unsigned kWidth>
HWY_INLINE void encode_one(const Constants<kWidth>& constants, DrawKey key, float mean,
                           const float* values, std::byte* unit_at, std::byte* wire) {
  VU max = hn::Zero(DU());
  for (std::size_t e = 0; e < kSuperGroup; e += kLanes) {
    max = hn::Max(max, magnitude(hn::Sub(load(values + e), set(mean))));
  }
  const std::uint32_t peak = hn::GetLane(hn::MaxOfLanes(DU(), max));
  auto* codes = reinterpret_cast<std::uint8_t*>(wire);
  if (HWY_UNLIKELY(peak >= kPoisonBits || peak < kMinPeakBits)) {
    put_u16(peak >= kPoisonBits ? kBfloat16Nan : 0, unit_at);
    std::memset(codes, 0, kPacks * pack_bytes(kWidth));
    return;
  }
  const std::uint32_t exponent = peak & 0x7f800000u;
  const VF inverse_power = from_bits(set_u((254u << 23) - exponent));
  const RotationSigns signs(key, constants.strides);

  alignas(64) float h[kSuperGroup];
  SumOfTerms squares;
  for (std::size_t p = 0; p < kPacks; ++p) {
    VF x[kPackVectors];
    VF terms[kPackVectors];
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      const VF centred = hn::Sub(load(values + p * kPack + v * kLanes), set(mean));
      x[v] = hn::Mul(centred, inverse_power);
      terms[v] = hn::Mul(x[v], x[v]);
    }
    squares.set(p, terms);
    signs.flip(0, p, x);
    transform_up(constants.lanes, x);
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      hn::Store(x[v], DF(), h + p * kPack + v * kLanes);
    }
  }
  transform_packs(signs, h);
  const float norm = squares.total();
  const float normalise = 0.0625f / std::sqrt(norm);

  SumOfTerms products;
  for (std::size_t p = 0; p < kPacks; ++p) {
    VF x[kPackVectors];
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      x[v] = hn::Load(DF(), h + p * kPack + v * kLanes);
    }
    transform_down(constants.lanes, x);
    VU code[kPackVectors];
    VF terms[kPackVectors];
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      code[v] = constants.quantiser.code(hn::Mul(x[v], set(normalise)), terms[v]);
    }
    products.set(p, terms);
    codes = pack_codes(code, kWidth, codes);
  }
  const float unit = norm * normalise / products.total() * hn::GetLane(from_bits(set_u(exponent)));
  const std::uint32_t draw = draw_word(key, kRotatedUnitWord) & 0xffffu;
  const std::uint32_t unit_bits = hn::GetLane(bits(set(unit)));
  put_u16(static_cast<std::uint16_t>((unit_bits + draw) >> 16), unit_at);
}

// Decodes one super-group and calls sink(pack, values) for every 32 values.
template <unsigned kWidth, typename Sink>
HWY_INLINE void decode_one(const Constants<kWidth>& constants, DrawKey key, float mean,
                           const std::byte* unit_at, const std::byte* wire, Sink sink) {
  const VF unit = set(bfloat16_to_float(get_u16(unit_at)));
  const RotationSigns signs(key, constants.strides);
  const auto* codes = reinterpret_cast<const std::uint8_t*>(wire);
  alignas(64) float g[kSuperGroup];
  for (std::size_t p = 0; p < kPacks; ++p) {
    VU code[kPackVectors];
    codes = unpack_codes(codes, kWidth, code);
    VF x[kPackVectors];
    for (std::size_t v = 0; v < kPackVectors; ++v) x[v] = constants.quantiser.level(code[v]);
    transform_up(constants.lanes, x);
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      hn::Store(x[v], DF(), g + p * kPack + v * kLanes);
    }
  }
  transform_packs(signs, g);
  for (std::size_t p = 0; p < kPacks; ++p) {
    VF x[kPackVectors];
    for (std::size_t v = 0; v < kPackVectors; ++v) {
      x[v] = hn::Load(DF(), g + p * kPack + v * kLanes);
    }
    transform_down(constants.lanes, x);
    signs.flip(0, p, x);
    for (VF& value : x) value = hn::MulAdd(value, unit, set(mean));
    sink(p, x);
  }
}

HWY_INLINE float mean_of(const SuperGroups& groups, std::size_t i, float contributions) {
  return contributions * groups.mean_of(i);
}

template <unsigned kWidth>
constexpr std::size_t kGroupBytes = kPacks* pack_bytes(kWidth);

template <unsigned kWidth>
void encode_run(const SuperGroups& groups, const DrawStream& draws, float contributions,
                const float* values, MessageKernels::Out wire) {
  const Constants<kWidth> constants;
  for (std::size_t i = 0; i < groups.count; ++i) {
    for (std::size_t e = 0; e < kSuperGroup; e += 16) prefetch_ahead(values + i * kSuperGroup + e);
    encode_one<kWidth>(constants, DrawKey(draws, groups.first + i),
                       mean_of(groups, i, contributions), values + i * kSuperGroup,
                       wire.units + 2 * i, wire.codes + kGroupBytes<kWidth> * i);
  }
}

template <unsigned kWidth, bool kAdd>
void decode_run(const SuperGroups& groups, const DrawStream& draws, float contributions,
                MessageKernels::In wire, float* values) {
  const Constants<kWidth> constants;
  for (std::size_t i = 0; i < groups.count; ++i) {
    float* to = values + i * kSuperGroup;
    decode_one<kWidth>(constants, DrawKey(draws, groups.first + i),
                       mean_of(groups, i, contributions), wire.units + 2 * i,
                       wire.codes + kGroupBytes<kWidth> * i,
                       [to](std::size_t p, const VF(&value)[kPackVectors]) HWY_ATTR {
                         for (std::size_t v = 0; v < kPackVectors; ++v) {
                           float* at = to + p * kPack + v * kLanes;
                           hn::StoreU(kAdd ? hn::Add(load(at), value[v]) : value[v], DF(), at);
                         }
                       });
  }
}

template <unsigned kWidth>
void fused_run(const SuperGroups& groups, const DrawStream& draws_in, const DrawStream& draws_out,
               float contributions, float total, MessageKernels::In wire, const float* values,
               MessageKernels::Out out) {
  const Constants<kWidth> constants;
  alignas(64) float sum[kSuperGroup];
  for (std::size_t i = 0; i < groups.count; ++i) {
    const float* from = values + i * kSuperGroup;
    decode_one<kWidth>(constants, DrawKey(draws_in, groups.first + i),
                       mean_of(groups, i, contributions), wire.units + 2 * i,
                       wire.codes + kGroupBytes<kWidth> * i,
                       [&](std::size_t p, const VF(&value)[kPackVectors]) HWY_ATTR {
                         for (std::size_t v = 0; v < kPackVectors; ++v) {
                           const std::size_t at = p * kPack + v * kLanes;
                           hn::Store(hn::Add(load(from + at), value[v]), DF(), sum + at);
                         }
                       });
    encode_one<kWidth>(constants, DrawKey(draws_out, groups.first + i), mean_of(groups, i, total),
                       sum, out.units + 2 * i, out.codes + kGroupBytes<kWidth> * i);
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
  wire.codes += kPacks * pack_bytes(run.width) * run.count;
}

// A table of functions by width.
#define NF_BY_WIDTH(name) \
  { nullptr, name(1), name(2), name(3), name(4), name(5), name(6), name(7), name(8) }

void encode(const SuperGroups& groups, const DrawStream& draws, float contributions,
            const float* values, MessageKernels::Out wire) {
#define NF_FORM(width) encode_run<width>
  static constexpr decltype(&encode_run<1>) kRuns[] = NF_BY_WIDTH(NF_FORM);
#undef NF_FORM
  for_each_width(groups, [&](const SuperGroups& run, std::size_t first) HWY_ATTR {
    if (run.width != 0) {
      kRuns[run.width](run, draws, contributions, values + first * kSuperGroup, wire);
    }
    advance(wire, run);
  });
}

template <bool kAdd>
HWY_INLINE void decode_to(const SuperGroups& groups, const DrawStream& draws, float contributions,
                          MessageKernels::In wire, float* values) {
#define NF_FORM(width) decode_run<width, kAdd>
  static constexpr decltype(&decode_run<1, kAdd>) kRuns[] = NF_BY_WIDTH(NF_FORM);
#undef NF_FORM
  for_each_width(groups, [&](const SuperGroups& run, std::size_t first) HWY_ATTR {
    float* to = values + first * kSuperGroup;
    if (run.width != 0) {
      kRuns[run.width](run, draws, contributions, wire, to);
    } else if (kAdd) {
      rotated_reference().decode_add(run, draws, contributions, wire, to);
    } else {
      rotated_reference().decode(run, draws, contributions, wire, to);
    }
    advance(wire, run);
  });
}

void decode(const SuperGroups& groups, const DrawStream& draws, float contributions,
            MessageKernels::In wire, float* values) {
  decode_to<false>(groups, draws, contributions, wire, values);
}

void decode_add(const SuperGroups& groups, const DrawStream& draws, float contributions,
                MessageKernels::In wire, float* values) {
  decode_to<true>(groups, draws, contributions, wire, values);
}

void decode_add_encode(const SuperGroups& groups, const DrawStream& draws_in,
                       const DrawStream& draws_out, float contributions, float total,
                       MessageKernels::In wire, const float* values, MessageKernels::Out out) {
#define NF_FORM(width) fused_run<width>
  static constexpr decltype(&fused_run<1>) kRuns[] = NF_BY_WIDTH(NF_FORM);
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

}  // namespace

constexpr MessageKernels kRotated = {encode, decode, decode_add, decode_add_encode};

#endif  // HWY_NATIVE_FMA
}  // namespace HWY_NAMESPACE
}  // namespace nf
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nf {

const MessageKernels& rotated_simd(Isa isa) { return *NF_SELECT_TABLE(isa, kRotated); }

}  // namespace nf
#endif
