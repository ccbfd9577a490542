// waterfill's arithmetic (docs/codecs/waterfill.md) for lanes that hold two runs of a pack
// (super_group.cuh), and its policy for super_group_kernels.cuh.
#pragma once

#include <cstdint>

#include "codec/waterfill/waterfill_kernels.h"
#include "cuda/device/draws.cuh"
#include "cuda/device/run_codes.cuh"
#include "cuda/device/super_group_layout.cuh"

namespace nf::device {

inline constexpr unsigned kWaterfillScaleBytes = kSuperGroup / kPack;

template <unsigned kWidth>
__device__ __forceinline__ WaterfillGrid grid_of_width(unsigned width) {
  if constexpr (kWidth != 0) {
    constexpr WaterfillGrid kGrid(kWidth);
    return kGrid;
  }
  return WaterfillGrid(max(width, kWaterfillMinWidth));
}

// The same from a known step, without a division.
template <unsigned kWidth>
__device__ __forceinline__ WaterfillGrid waterfill_grid(unsigned width, float step) {
  if constexpr (kWidth != 0) return grid_of_width<kWidth>(width);
  WaterfillGrid grid;
  grid.centre = static_cast<float>((1u << (max(width, kWaterfillMinWidth) - 1)) - 2);
  grid.step = step;
  return grid;
}

// The words of a lane's draws: word k contains the draws of element k of both runs.
struct DrawWords {
  std::uint32_t start = 0;  // of the lane's first word
  std::uint32_t twist = 0;

  // A lane has one word per element of a run, in the order of lanes.
  template <int kRun>
  __device__ __forceinline__ DrawWords(std::uint32_t key_start, std::uint32_t key_twist,
                                       const Lane<kRun>& lane)
      : start(key_start + lane.index * kRun * kWordStride), twist(key_twist) {}

  // The factor that kWordMultiplier multiplies.
  __device__ __forceinline__ std::uint32_t factor(int k) const {
    const std::uint32_t x = start + static_cast<std::uint32_t>(k) * kWordStride;
    return x ^ (x >> 16) ^ twist;
  }
};

// The two dithers of a word w = y ^ (y >> 16). The high half of w is the high half of y.
__device__ __forceinline__ void dithers(std::uint32_t factor, float& low, float& high) {
  constexpr std::uint32_t kDraw = 0x007fff80u;
  const std::uint32_t high_bits = masked_or(factor * kWordMultiplier >> 9, kDraw, kDitherBits);
  high = __uint_as_float(high_bits);
  low = __uint_as_float(high_bits ^ (factor * (kWordMultiplier << 7) & kDraw));
}

// Four codes of up to 7 bits minus their dithers, exact in FP32. With d the complement of the draw,
// code - dither = (128 + code + d / 65536) - (130 - 2^-17). The left bracket is assembled from
// bytes; the right one needs 25 bits, but is a product of two FP32 numbers.
template <unsigned kWidth>
__device__ __forceinline__ void levels(const DrawWords& draws, int first, std::uint32_t low_codes,
                                       std::uint32_t high_codes, float (&low)[4],
                                       float (&high)[4]) {
  constexpr std::uint32_t kEvenBytes = kWidth == 4 ? 0x000f000fu : 0x00ff00ffu;
  constexpr std::uint32_t kExponents = 0x43004300u;  // of 128
  constexpr float kFactor = 1307.0f;
  constexpr float kCofactor = -13037.0f * 0x1p-17f;
  static_assert(1307 * 13037 == 130 * (1 << 17) - 1);
  const std::uint32_t lows[2] = {masked_or(low_codes, kEvenBytes, kExponents),
                                 masked_or(low_codes >> 8, kEvenBytes, kExponents)};
  const std::uint32_t highs[2] = {masked_or(high_codes, kEvenBytes, kExponents),
                                  masked_or(high_codes >> 8, kEvenBytes, kExponents)};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::uint32_t inverted =
        multiply_add(draws.factor(first + k), 0u - kWordMultiplier, ~0u);  // ~y
    const std::uint32_t folded = equal_bits(inverted, inverted >> 16);
    const std::uint32_t low_bits = __byte_perm(folded, lows[k % 2], k < 2 ? 0x5410 : 0x7610);
    const std::uint32_t high_bits = __byte_perm(inverted, highs[k % 2], k < 2 ? 0x5432 : 0x7632);
    low[k] = __fmaf_rn(kFactor, kCofactor, __uint_as_float(low_bits));
    high[k] = __fmaf_rn(kFactor, kCofactor, __uint_as_float(high_bits));
  }
}

// The same for codes of up to 10 bits, rounded.
__device__ __forceinline__ void wide_levels(const DrawWords& draws, int first,
                                            std::uint32_t low_codes, std::uint32_t low_over,
                                            std::uint32_t high_codes, std::uint32_t high_over,
                                            float (&low)[4], float (&high)[4]) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    float low_dither;
    float high_dither;
    dithers(draws.factor(first + k), low_dither, high_dither);
    const auto number = [k](std::uint32_t codes, std::uint32_t over) {
      return static_cast<float>((codes >> 8 * k & 255u) | (over >> 8 * k & 3u) << 8);
    };
    low[k] = number(low_codes, low_over) - low_dither;
    high[k] = number(high_codes, high_over) - high_dither;
  }
}

// Decodes a lane's codes, and adds the result to its values (kAdd) or replaces them.
template <int kRun, unsigned kWidth, bool kAdd>
__device__ __forceinline__ void decode_runs(const WaterfillGrid& grid, const Lane<kRun>& lane,
                                            unsigned width, const DrawWords& draws, float unit,
                                            float mean, unsigned scale_byte,
                                            const PackedCodes<kRun, kWidth>& packed,
                                            Runs<kRun>& values) {
  const auto step_of = [&](unsigned code) {
    // 2^23 + code, less 2^23 - 4.
    const float scale = __uint_as_float(0x4b000000u | code) - (0x1p23f - 4.0f);
    return (code == 0 ? 0.0f : scale) * unit * grid.step;
  };
  const float low_step = step_of(scale_byte & 15u);
  const float high_step = step_of(scale_byte >> 4);
  const float low_base = __fmaf_rn(-grid.centre, low_step, mean);
  const float high_base = __fmaf_rn(-grid.centre, high_step, mean);
  const auto add = [&](int first, const float(&low)[4], const float(&high)[4]) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float low_value = __fmaf_rn(low[k], low_step, low_base);
      const float high_value = __fmaf_rn(high[k], high_step, high_base);
      values.low[first + k] = kAdd ? values.low[first + k] + low_value : low_value;
      values.high[first + k] = kAdd ? values.high[first + k] + high_value : high_value;
    }
  };
  float low[4];
  float high[4];
  if (kWidth == 0 && any_lane(width > 7)) {
    const RunBytes<kRun> lower = packed.lower(width, lane.first);
    const RunBytes<kRun> upper = packed.upper(width, lane.first);
#pragma unroll
    for (int w = 0; w < kRun / 4; ++w) {
      wide_levels(draws, 4 * w, lower.low[w], upper.low[w], lower.high[w], upper.high[w], low,
                  high);
      add(4 * w, low, high);
    }
  } else {
    const RunBytes<kRun> codes = packed.narrow(width, lane.first);
#pragma unroll
    for (int w = 0; w < kRun / 4; ++w) {
      levels<kWidth>(draws, 4 * w, codes.low[w], codes.high[w], low, high);
      add(4 * w, low, high);
    }
  }
}

// The results of encode_runs() besides the codes.
struct WaterfillScales {
  std::uint16_t unit = 0;  // BF16
  unsigned byte = 0;       // the two scales of this lane's pack
  bool has_codes = false;  // otherwise all codes are 0
};

// Encodes a lane's centred values.
template <int kRun, unsigned kWidth>
__device__ __forceinline__ WaterfillScales encode_runs(const WaterfillGrid& grid,
                                                       const Lane<kRun>& lane, unsigned width,
                                                       const DrawWords& draws,
                                                       const Runs<kRun>& centred, bool is_written,
                                                       std::byte* pack) {
  const std::uint32_t own_peak = group_peak<kRun>(lane.part, centred);
  const std::uint32_t peak = max_of_lanes<Lane<kRun>::kTeam>(own_peak);
  WaterfillScales scales;
  scales.has_codes = peak >= kMinPeakBits && peak < kPoisonBits;
  const std::uint32_t unit_bits =
      __float_as_uint(__uint_as_float(peak) * kPeakToScaleUnit) + 0xffffu & 0xffff0000u;
  const float unit = __uint_as_float(unit_bits);
  scales.unit = static_cast<std::uint16_t>(
      scales.has_codes ? unit_bits >> 16 : (peak >= kPoisonBits ? kBfloat16Nan : 0));

  // The smallest scale with scale * unit >= peak; the products are exact. The rounded quotient is
  // correct or one too low.
  const float own = __uint_as_float(own_peak);
  constexpr float kWhole = 0x1.8p23f;
  float scale = __fmaf_rn(own, reciprocal_estimate(unit), kWhole) - kWhole;
  if (scale * unit < own) scale += 1.0f;
  scale = fminf(fmaxf(scale, float{kMinScale}), float{kMaxScale});
  const bool is_zero = own_peak == 0;
  const float own_inverse = is_zero ? 0.0f : reciprocal(scale * unit * grid.step);
  const unsigned own_code = is_zero ? 0 : __float_as_uint(scale + (0x1p23f - 4.0f)) & 15u;
  const unsigned other_code = from_neighbour(own_code, 1);
  scales.byte = scales.has_codes ? own_code | other_code << 4 : 0;  // as even lanes see it

  float low_inverse;
  float high_inverse;
  exchange(lane.part, own_inverse, low_inverse, high_inverse);
  // Rounds to an integer in the low bits. The centre is even, so ties do not change.
  const float whole = kWhole + grid.centre;
  RunBytes<kRun> lower;
  RunBytes<kRun> upper;
  const bool has_upper = kWidth == 0 && any_lane(width > 8);
#pragma unroll
  for (int w = 0; w < kRun / 4; ++w) {
    std::uint32_t low[4];
    std::uint32_t high[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float low_dither;
      float high_dither;
      dithers(draws.factor(4 * w + k), low_dither, high_dither);
      low[k] = __float_as_uint(__fmaf_rn(centred.low[4 * w + k], low_inverse, low_dither) + whole);
      high[k] =
          __float_as_uint(__fmaf_rn(centred.high[4 * w + k], high_inverse, high_dither) + whole);
      if constexpr (kWidth == 4) low[k] += high[k] * 16;
    }
    lower.low[w] = scales.has_codes ? low_bytes(low) : 0;
    if constexpr (kWidth == 0) lower.high[w] = scales.has_codes ? low_bytes(high) : 0;
    if (has_upper) {
      upper.low[w] = scales.has_codes ? high_bytes(low) : 0;
      upper.high[w] = scales.has_codes ? high_bytes(high) : 0;
    }
  }
  if constexpr (kWidth == 4) {
    if (is_written) store_words(lower.low, pack + lane.first);
  } else {
    write_codes<kRun>(lower, upper, width, lane.part, is_written, pack);
  }
  return scales;
}

// The policy for super_group_kernels.cuh.
template <DataType kType, unsigned kCommonWidth>
struct WaterfillPolicy {
  static constexpr unsigned kWidth = kCommonWidth;
  static constexpr int kRun = kType == DataType::kFloat32 ? 4 : 8;
  static constexpr unsigned kScaleBytes = kWaterfillScaleBytes;
  static constexpr bool kPadsPacks = false;

  struct alignas(16) Params {
    float mean = 0;  // of one rank
    float unit = 0;  // of the incoming message
    std::uint32_t in_start = 0;
    std::uint32_t in_twist = 0;

    std::uint32_t out_start = 0;
    std::uint32_t out_twist = 0;
    std::uint32_t scales = 0;
    std::uint32_t codes = 0;

    std::uint32_t width = 0;
    float grid_step = 0;
    std::uint32_t units = 0;
    std::uint32_t out_unit = 0;
  };

  struct alignas(16) FoldParams {
    cuda::SuperGroupOffsets from;
    cuda::SuperGroupOffsets to;

    float mean = 0;
    float left_out_unit = 0;
    float in_grid_step = 0;
    float out_grid_step = 0;

    std::uint32_t out_start = 0;
    std::uint32_t out_twist = 0;
  };

  // The grid and the draws of one message.
  struct Source {
    WaterfillGrid grid;
    DrawWords draws;
  };

  // The same for folded messages. The lanes of a team compute the keys of as many messages at once.
  struct Sources {
    WaterfillGrid grid;
    DrawKey key{DrawStream(0, 0, 0, 0, DrawPurpose::kDither), 0};

    __device__ __forceinline__ Source next(const SuperGroupJob& job, const Segment& segment,
                                           std::uint32_t i, const SuperGroupFolded& in,
                                           std::uint32_t m, const Lane<kRun>& lane) {
      constexpr unsigned kTeam = Lane<kRun>::kTeam;
      if (m % kTeam == 0) {
        key = block_key(job.step_key, segment.piece.parameter,
                        in.messages[min(m + lane.index, in.count - 1)].encoder,
                        DrawPurpose::kDither, segment.block_in_parameter(i));
      }
      return {grid, DrawWords(from_lane<kTeam>(key.start, m % kTeam),
                              from_lane<kTeam>(key.twist, m % kTeam), lane)};
    }
  };

  __device__ static bool is_sent(unsigned width) { return width != 0; }

  template <bool kDecodes, bool kEncodes>
  __device__ __forceinline__ void set_params(const SuperGroupJob& job, const Segment& segment,
                                             std::uint32_t i,
                                             const cuda::SuperGroupOffsets& offsets,
                                             const SuperGroupMessage<const std::byte>& in,
                                             const SuperGroupMessage<std::byte>& out,
                                             Params& params) const {
    if constexpr (kDecodes) {
      params.unit = offsets.width == 0 ? left_out_unit(segment.statistics(i) & 0xffff0000u)
                                       : unit_of(in.bytes, offsets.units);
      const DrawKey key = dither_key(job, segment, i, in.encoder);
      params.in_start = key.start;
      params.in_twist = key.twist;
    }
    if constexpr (kEncodes) {
      const DrawKey key = dither_key(job, segment, i, out.encoder);
      params.out_start = key.start;
      params.out_twist = key.twist;
    }
    params.grid_step = grid_of_width<kWidth>(offsets.width).step;
  }

  __device__ __forceinline__ void set_params(const SuperGroupJob& job, const Segment& segment,
                                             std::uint32_t i,
                                             const SuperGroupMessage<std::byte>& out,
                                             FoldParams& params) const {
    params.left_out_unit = device::left_out_unit(segment.statistics(i) & 0xffff0000u);
    params.in_grid_step = grid_of_width<kWidth>(params.from.width).step;
    params.out_grid_step = grid_of_width<kWidth>(params.to.width).step;
    const DrawKey key = dither_key(job, segment, i, out.encoder);
    params.out_start = key.start;
    params.out_twist = key.twist;
  }

  __device__ __forceinline__ WaterfillGrid grid(const Params& params, unsigned width) const {
    return waterfill_grid<kWidth>(width, params.grid_step);
  }
  __device__ __forceinline__ WaterfillGrid in_grid(const FoldParams& params, unsigned width) const {
    return waterfill_grid<kWidth>(width, params.in_grid_step);
  }
  __device__ __forceinline__ WaterfillGrid out_grid(const FoldParams& params,
                                                    unsigned width) const {
    return waterfill_grid<kWidth>(width, params.out_grid_step);
  }

  __device__ __forceinline__ Source source(const WaterfillGrid& grid, const Params& params,
                                           const Lane<kRun>& lane) const {
    return {grid, DrawWords(params.in_start, params.in_twist, lane)};
  }
  __device__ __forceinline__ Sources sources(const WaterfillGrid& grid) const { return {grid}; }
  __device__ static float absent_unit(const FoldParams& params) { return params.left_out_unit; }

  __device__ __forceinline__ unsigned load_scales(const std::byte* scales,
                                                  const Lane<kRun>& /*lane*/, int /*held*/) const {
    return std::to_integer<unsigned>(*scales);
  }
  __device__ __forceinline__ void store_scales(const Lane<kRun>& lane,
                                               const WaterfillScales& scales, int /*held*/,
                                               bool is_written, std::byte* to) const {
    if (lane.part == 0 && is_written) *to = static_cast<std::byte>(scales.byte);
  }

  template <bool kAdd>
  __device__ __forceinline__ void decode(const Source& source, const Lane<kRun>& lane,
                                         unsigned width, float unit, float mean, unsigned scales,
                                         const PackedCodes<kRun, kWidth>& packed,
                                         Runs<kRun>& values) const {
    decode_runs<kRun, kWidth, kAdd>(source.grid, lane, width, source.draws, unit, mean, scales,
                                    packed, values);
  }

  template <typename AnyParams>
  __device__ __forceinline__ WaterfillScales encode(const WaterfillGrid& grid,
                                                    const AnyParams& params, const Lane<kRun>& lane,
                                                    unsigned width, const Runs<kRun>& centred,
                                                    bool is_written, std::byte* codes) const {
    return encode_runs<kRun, kWidth>(grid, lane, width,
                                     DrawWords(params.out_start, params.out_twist, lane), centred,
                                     is_written, codes);
  }

 private:
  __device__ static __forceinline__ DrawKey dither_key(const SuperGroupJob& job,
                                                       const Segment& segment, std::uint32_t i,
                                                       std::uint32_t encoder) {
    return block_key(job.step_key, segment.piece.parameter, encoder, DrawPurpose::kDither,
                     segment.block_in_parameter(i));
  }
};

}  // namespace nf::device
