// dynamiq's arithmetic (docs/codecs/dynamiq.md) for lanes that hold two runs of a pack
// (super_group.cuh), and its policy for super_group_kernels.cuh. Tables of up to 32 numbers are in
// one register, one number per lane: a lookup is a shuffle.
#pragma once

#include <cstdint>
#include <type_traits>

#include "codec/dynamiq/dynamiq_kernels.h"
#include "cuda/device/draws.cuh"
#include "cuda/device/run_codes.cuh"
#include "cuda/device/super_group_layout.cuh"

namespace nf::device {

inline constexpr unsigned kDynamiqScaleBytes = kSuperGroup / 16;

// The lattices (codec/dynamiq/dynamiq_lattice.h), as launch arguments: value4 by code, the others
// by number.
struct DynamiqTables {
  static constexpr unsigned kFew = 16;
  float value4[kFew] = {};
  float low4[kFew] = {};
  float gap4[kFew] = {};
  float coarse8[kFew] = {};
  float fine8[kFew] = {};
  bool is_uniform = false;
};

// The strata of a message's encoder (codec/dynamiq/dynamiq_draws.h).
struct DynamiqStrata {
  static constexpr unsigned kFactors = 8;
  std::uint32_t count = 1;
  std::uint32_t shifts[kFactors] = {};  // (a i) mod n for each a
  float slope = 0;
};

// This lane's entries of the tables.
struct DynamiqLookups {
  float value4 = 0;
  float height4 = 0;  // of the thresholds, in steps of the draw
  float base4 = 0;
  float eight = 0;  // fine8 in the lower lanes, coarse8 in the upper lanes
  float coarse_start = 0;
  bool is_uniform = false;

  __device__ __forceinline__ DynamiqLookups(const DynamiqTables& tables, float slope) {
    const unsigned lane = threadIdx.x % kWarp;
    const unsigned few = lane % DynamiqTables::kFew;
    value4 = tables.value4[few];
    height4 = tables.gap4[few] * slope;
    base4 = __fmaf_rn(0.5f, height4, tables.low4[few]);
    eight = lane < DynamiqTables::kFew ? tables.fine8[few] : tables.coarse8[few];
    coarse_start = tables.coarse8[0];
    is_uniform = tables.is_uniform;
  }

  // The level of magnitude r at 8 bits.
  __device__ __forceinline__ float level8(std::uint32_t r) const {
    if (is_uniform) return static_cast<float>(r);
    const float fine = from_lane<kWarp>(eight, r & 15u);
    const float coarse = from_lane<kWarp>(eight, DynamiqTables::kFew + (r >> 4));
    return __fmaf_rn(coarse, fine, -coarse_start);
  }
};

// The keys of one super-group's draws.
struct alignas(16) DynamiqKeys {
  std::uint32_t rounding_start = 0;
  std::uint32_t rounding_twist = 0;
  std::uint32_t shared_start = 0;
  std::uint32_t shared_twist = 0;
  std::uint32_t scale_start = 0;
  std::uint32_t scale_twist = 0;
  std::uint32_t shift = 0;

  DynamiqKeys() = default;
  __device__ __forceinline__ DynamiqKeys(std::uint64_t step_key, std::uint64_t parameter,
                                         std::uint32_t encoder, const DynamiqStrata& strata,
                                         std::uint64_t block) {
    const DrawKey rounding = block_key(step_key, parameter, encoder, DrawPurpose::kRounding, block);
    const DrawKey scale = block_key(step_key, parameter, encoder, DrawPurpose::kGroupScale, block);
    const DrawKey shared =
        block_key(step_key, parameter, kSharedEncoder, DrawPurpose::kShift, block);
    rounding_start = rounding.start;
    rounding_twist = rounding.twist;
    scale_start = scale.start;
    scale_twist = scale.twist;
    shared_start = shared.start;
    shared_twist = shared.twist;
    const std::uint32_t draw = draw16(shared, static_cast<std::uint32_t>(kDrawBlock));
    shift = strata.shifts[draw * DynamiqStrata::kFactors >> 16];
  }
};

__device__ __forceinline__ std::uint32_t dynamiq_word(std::uint32_t start, std::uint32_t twist,
                                                      std::uint32_t word) {
  std::uint32_t x = start + word * kWordStride;
  x ^= (x >> 16) ^ twist;
  x *= kWordMultiplier;
  return x ^ (x >> 16);
}

// The rounding draws U of elements k of a lane's runs.
template <int kRun>
__device__ __forceinline__ void rounding_draws(const DynamiqKeys& keys, std::uint32_t strata,
                                               const Lane<kRun>& lane, int k, float& low,
                                               float& high) {
  const std::uint32_t own = dynamiq_word(keys.rounding_start, keys.rounding_twist,
                                         lane.pack * 16 + lane.first + static_cast<unsigned>(k));
  std::uint32_t shared = dynamiq_word(keys.shared_start, keys.shared_twist,
                                      lane.pack / 2 * 16 + lane.first + static_cast<unsigned>(k));
  shared = __byte_perm(shared, 0, lane.pack % 2 == 0 ? 0x3210 : 0x2301);
  // (c + shift) mod n in the upper half of a word, with c and shift below n.
  const auto stratum = [&](std::uint32_t draw) {
    const std::uint32_t sum = draw * strata + (keys.shift << 16);
    return min(sum, sum - (strata << 16));
  };
  low = static_cast<float>(__byte_perm(own, stratum(shared & 0xffffu), 0x7610));
  high = static_cast<float>(__byte_perm(own, stratum(shared >> 16), 0x7632));
}

// Decodes a lane's codes of kBits bits, and adds the result to its values (kAdd) or replaces them.
template <int kRun, unsigned kBits, bool kAdd>
__device__ __forceinline__ void decode_runs(const DynamiqLookups& lookups, float unit, float mean,
                                            unsigned scale_bytes, const RunBytes<kRun>& codes,
                                            Runs<kRun>& values) {
  constexpr float kInverseTop = 1.0f / static_cast<float>((1u << (kBits - 1)) - 1);
  const float low_step = static_cast<float>(scale_bytes & 255u) * unit * kInverseTop;
  const float high_step = static_cast<float>(scale_bytes >> 8) * unit * kInverseTop;
  const auto value_of = [&](std::uint32_t code) {
    // Both half-warps hold the whole table, so only four bits matter.
    if constexpr (kBits == 4) return from_lane<kWarp>(lookups.value4, code);
    constexpr std::uint32_t kTop = (1u << (kBits - 1)) - 1;
    const float level = kBits == 2 ? static_cast<float>(code & kTop) : lookups.level8(code & kTop);
    return (code & (kTop + 1)) != 0 ? -level : level;
  };
#pragma unroll
  for (int k = 0; k < kRun; ++k) {
    const float low = __fmaf_rn(value_of(codes.low[k / 4] >> k % 4 * 8), low_step, mean);
    const float high = __fmaf_rn(value_of(codes.high[k / 4] >> k % 4 * 8), high_step, mean);
    values.low[k] = kAdd ? values.low[k] + low : low;
    values.high[k] = kAdd ? values.high[k] + high : high;
  }
}

// The number of the value that a position rounds to, counted from the smallest value, in the low
// bits. The estimate is correct or one too low; one threshold decides.
__device__ __forceinline__ std::uint32_t round4(const DynamiqLookups& lookups, float slope,
                                                float position, float draw) {
  // The values deviate from a straight line by less than 0.47 steps. -1 has no threshold.
  const float about = __fmaf_rn(-draw, slope, position);
  const std::uint32_t number = __float_as_uint(about + (0x1.8p23f + 7.0f));
  const float height = from_lane<kWarp>(lookups.height4, number);
  const float base = from_lane<kWarp>(lookups.base4, number);
  return number + (__fmaf_rn(draw, height, base) < position ? 1 : 0);
}

// Four numbers 0 to 14 as sign-magnitude codes: n - 7 from 7 on, otherwise 15 - n.
__device__ __forceinline__ std::uint32_t codes4(std::uint32_t numbers) {
  const std::uint32_t moved = numbers + 0x09090909u;
  const std::uint32_t positive = (moved >> 4 & 0x01010101u) * 15u;
  return ((moved & positive) | (~numbers & ~positive)) & 0x0f0f0f0fu;
}

// The code of 2 bits that a position rounds to.
__device__ __forceinline__ std::uint32_t round2(float slope, float position, float draw) {
  if (__fmaf_rn(draw, slope, 0.5f * slope) < position) return 1;
  return __fmaf_rn(draw, slope, __fmaf_rn(0.5f, slope, -1.0f)) < position ? 0 : 3;
}

// The magnitude at 8 bits as a real number, to within 0.3.
__device__ __forceinline__ float estimate8(bool is_uniform, float position) {
  if (is_uniform) return position;
  // log2(1 + position / coarse[0]) / log2(growth), with a parabola for the mantissa's logarithm.
  const std::uint32_t x = __float_as_uint(__fmaf_rn(position, 4.0293165f / 127.0f, 1.0f));
  const auto octave = static_cast<float>(x >> 23);
  const float mantissa = __uint_as_float((x & 0x007fffffu) | 0x3f800000u);
  constexpr float kStepsPerOctave = 54.497962f;
  const float slope =
      __fmaf_rn(mantissa, -0.34484843f * kStepsPerOctave, 2.02466578f * kStepsPerOctave);
  const float parabola = __fmaf_rn(mantissa, slope, (-1.67487759f - 127.0f) * kStepsPerOctave);
  return __fmaf_rn(octave, kStepsPerOctave, parabola);
}

// The code of 8 bits that a position rounds to.
__device__ __forceinline__ std::uint32_t round8(const DynamiqLookups& lookups, float slope,
                                                float position, float draw) {
  const float magnitude = estimate8(lookups.is_uniform, fabsf(position));
  const float about = __fmaf_rn(-draw, slope, copysignf(magnitude, position));
  const float within = fminf(fmaxf(about, -127.0f), 126.0f);
  int number = static_cast<int>(__float_as_uint(within + 0x1.8p23f) - 0x4b400000u);
  // The steps up from -1, -2, ... mirror those from 0, 1, ...
  const auto r = static_cast<std::uint32_t>(number < 0 ? ~number : number) & 127u;
  const float inner = lookups.level8(r);
  const float outer = lookups.level8(r + 1);
  const float low = number < 0 ? -outer : inner;
  const float height = (outer - inner) * slope;
  if (__fmaf_rn(draw, height, __fmaf_rn(0.5f, height, low)) < position) ++number;
  return static_cast<std::uint32_t>(number < 0 ? 128 - number : number);
}

struct DynamiqScales {
  std::uint16_t unit = 0;  // BF16
  unsigned byte = 0;       // the scale of this lane's group
};

// Encodes a lane's centred values in kBits bits each. `own_peak` is their group_peak(): the caller
// computes it once for all widths.
template <int kRun, unsigned kBits>
__device__ __forceinline__ DynamiqScales
encode_runs(const DynamiqLookups& lookups, const DynamiqStrata& strata, const DynamiqKeys& keys,
            const Lane<kRun>& lane, const Runs<kRun>& centred, std::uint32_t own_peak,
            bool is_written, std::byte* pack) {
  const std::uint32_t peak = max_of_lanes<Lane<kRun>::kTeam>(own_peak);
  const bool has_codes = peak >= kMinPeakBits && peak < kPoisonBits;
  const std::uint32_t unit_bits =
      (__float_as_uint(__uint_as_float(peak) * kPeakToUnit) + 0xffffu) & 0xffff0000u;
  DynamiqScales scales;
  scales.unit = static_cast<std::uint16_t>(has_codes ? unit_bits >> 16
                                                     : (peak >= kPoisonBits ? kBfloat16Nan : 0));

  const float own = __uint_as_float(own_peak);
  const std::uint32_t scale_word =
      dynamiq_word(keys.scale_start, keys.scale_twist, 2 * lane.pack + lane.part % 2);
  const float scale_draw = __fmaf_rn(static_cast<float>(scale_word & 0xffffu), 0x1p-16f, 0x1p-17f);
  const float quotient = __fdiv_rn(own, __uint_as_float(unit_bits));
  const unsigned scale = min(255u, static_cast<unsigned>(quotient + scale_draw));
  scales.byte = has_codes ? scale : 0;
  constexpr auto kTop = static_cast<float>((1u << (kBits - 1)) - 1);
  float low_inverse;
  float high_inverse;
  const float inverse = scale == 0 ? 0.0f : __fdiv_rn(kTop, fmaxf(own, kMinGroupPeak));
  exchange(lane.part, inverse, low_inverse, high_inverse);

  RunBytes<kRun> codes;
#pragma unroll
  for (int w = 0; w < kRun / 4; ++w) {
    std::uint32_t low[4];
    std::uint32_t high[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float low_draw;
      float high_draw;
      rounding_draws(keys, strata.count, lane, 4 * w + k, low_draw, high_draw);
      const auto round = [&](float position, float draw) {
        if constexpr (kBits == 2) return round2(strata.slope, position, draw);
        if constexpr (kBits == 4) return round4(lookups, strata.slope, position, draw);
        return round8(lookups, strata.slope, position, draw);
      };
      low[k] = round(centred.low[4 * w + k] * low_inverse, low_draw);
      high[k] = round(centred.high[4 * w + k] * high_inverse, high_draw);
    }
    codes.low[w] = low_bytes(low);
    codes.high[w] = low_bytes(high);
    if constexpr (kBits == 4) {
      codes.low[w] = codes4(codes.low[w]) + codes4(codes.high[w]) * 16;
    }
    if (!has_codes) codes.low[w] = codes.high[w] = 0;
  }
  if constexpr (kBits == 4) {
    if (is_written) store_words(codes.low, pack + lane.first);
  } else {
    write_codes<kRun>(codes, {}, kBits, lane.part, is_written, pack);
  }
  return scales;
}

// If widths differ, a super-group takes a whole warp, which so has one width at a time.
template <DataType kType, unsigned kWidth>
inline constexpr int kDynamiqRun = kType == DataType::kFloat32 || kWidth == 0 ? 4 : 8;

// The scales of the two groups of a pack, or of the first group alone. Their addresses are even:
// messages and their parts are multiples of four bytes, and the units before them take two each.
__device__ __forceinline__ unsigned dynamiq_scales(const std::byte* at, bool has_second) {
  if (has_second) return *reinterpret_cast<const std::uint16_t*>(at);
  return std::to_integer<unsigned>(*at);
}

// Writes the scale of this lane's group, if it is one of the first two lanes of its pack and the
// group has values. `held`: values from the lane's first element on.
template <int kRun>
__device__ __forceinline__ void put_dynamiq_scale(const Lane<kRun>& lane, unsigned scale, int held,
                                                  std::byte* scales) {
  const int half = static_cast<int>(lane.part) * 16 - static_cast<int>(lane.first);
  if (lane.part < 2 && held > half) scales[lane.part] = static_cast<std::byte>(scale);
}

// Calls work(std::integral_constant<unsigned, width>()) with the width of all lanes of the warp.
template <unsigned kWidth, typename Work>
__device__ __forceinline__ auto with_width(unsigned width, Work work) {
  if constexpr (kWidth != 0) return work(std::integral_constant<unsigned, kWidth>());
  if (width == 2) return work(std::integral_constant<unsigned, 2>());
  if (width == 4) return work(std::integral_constant<unsigned, 4>());
  return work(std::integral_constant<unsigned, 8>());
}

// The policy for super_group_kernels.cuh.
template <DataType kType, unsigned kCommonWidth>
struct DynamiqPolicy {
  static constexpr unsigned kWidth = kCommonWidth;
  static constexpr int kRun = kDynamiqRun<kType, kWidth>;
  static constexpr unsigned kScaleBytes = kDynamiqScaleBytes;
  static constexpr bool kPadsPacks = false;

  struct alignas(16) Params {
    DynamiqKeys keys;  // of the outgoing message

    float mean = 0;  // of one rank
    float unit = 0;  // of the incoming message
    std::uint32_t scales = 0;
    std::uint32_t codes = 0;

    std::uint32_t width = 0;
    std::uint32_t units = 0;
    std::uint32_t out_unit = 0;
  };

  struct alignas(16) FoldParams {
    DynamiqKeys keys;
    cuda::SuperGroupOffsets from;
    cuda::SuperGroupOffsets to;
    float mean = 0;
  };

  // There are no constants of the width, and decoding needs no draws.
  struct Grid {};
  struct Source {};
  struct Sources {
    __device__ static Source next(const SuperGroupJob& /*job*/, const Segment& /*segment*/,
                                  std::uint32_t /*i*/, const SuperGroupFolded& /*in*/,
                                  std::uint32_t /*m*/, const Lane<kRun>& /*lane*/) {
      return {};
    }
  };

  const DynamiqStrata& strata;
  const DynamiqLookups lookups;

  __device__ __forceinline__ DynamiqPolicy(const DynamiqTables& tables,
                                           const DynamiqStrata& own_strata)
      : strata(own_strata), lookups(tables, own_strata.slope) {}

  __device__ static bool is_sent(unsigned /*width*/) { return true; }

  template <bool kDecodes, bool kEncodes>
  __device__ __forceinline__ void set_params(const SuperGroupJob& job, const Segment& segment,
                                             std::uint32_t i,
                                             const cuda::SuperGroupOffsets& offsets,
                                             const SuperGroupMessage<const std::byte>& in,
                                             const SuperGroupMessage<std::byte>& out,
                                             Params& params) const {
    if constexpr (kEncodes) params.keys = keys(job, segment, i, out.encoder);
    if constexpr (kDecodes) params.unit = unit_of(in.bytes, offsets.units);
  }

  __device__ __forceinline__ void set_params(const SuperGroupJob& job, const Segment& segment,
                                             std::uint32_t i,
                                             const SuperGroupMessage<std::byte>& out,
                                             FoldParams& params) const {
    params.keys = keys(job, segment, i, out.encoder);
  }

  __device__ static Grid grid(const Params& /*params*/, unsigned /*width*/) { return {}; }
  __device__ static Grid in_grid(const FoldParams& /*params*/, unsigned /*width*/) { return {}; }
  __device__ static Grid out_grid(const FoldParams& /*params*/, unsigned /*width*/) { return {}; }
  __device__ static Source source(Grid /*grid*/, const Params& /*params*/,
                                  const Lane<kRun>& /*lane*/) {
    return {};
  }
  __device__ static Sources sources(Grid /*grid*/) { return {}; }
  __device__ static float absent_unit(const FoldParams& /*params*/) { return 0; }

  __device__ __forceinline__ unsigned load_scales(const std::byte* scales, const Lane<kRun>& lane,
                                                  int held) const {
    return dynamiq_scales(scales, held > 16 - static_cast<int>(lane.first));
  }
  __device__ __forceinline__ void store_scales(const Lane<kRun>& lane, const DynamiqScales& scales,
                                               int held, bool /*is_written*/, std::byte* to) const {
    put_dynamiq_scale(lane, scales.byte, held, to);
  }

  template <bool kAdd>
  __device__ __forceinline__ void decode(Source /*source*/, const Lane<kRun>& lane, unsigned width,
                                         float unit, float mean, unsigned scales,
                                         const PackedCodes<kRun, kWidth>& packed,
                                         Runs<kRun>& values) const {
    with_width<kWidth>(width, [&](auto bits) {
      decode_runs<kRun, bits(), kAdd>(lookups, unit, mean, scales, packed.lower(width, lane.first),
                                      values);
    });
  }

  template <typename AnyParams>
  __device__ __forceinline__ DynamiqScales encode(Grid /*grid*/, const AnyParams& params,
                                                  const Lane<kRun>& lane, unsigned width,
                                                  const Runs<kRun>& centred, bool is_written,
                                                  std::byte* codes) const {
    const std::uint32_t own_peak = group_peak<kRun>(lane.part, centred);
    return with_width<kWidth>(width, [&](auto bits) {
      return encode_runs<kRun, bits()>(lookups, strata, params.keys, lane, centred, own_peak,
                                       is_written, codes);
    });
  }

 private:
  __device__ __forceinline__ DynamiqKeys keys(const SuperGroupJob& job, const Segment& segment,
                                              std::uint32_t i, std::uint32_t encoder) const {
    return DynamiqKeys(job.step_key, segment.piece.parameter, encoder, strata,
                       segment.block_in_parameter(i));
  }
};

}  // namespace nf::device
