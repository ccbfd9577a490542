// waterfill's arithmetic (docs/codecs/waterfill.md) for lanes that hold two runs of a group
// (super_group.cuh).
#pragma once

#include <cstdint>

#include "codec/waterfill/waterfill_kernels.h"
#include "cuda/device/draws.cuh"
#include "cuda/device/run_codes.cuh"

namespace nf::device {

inline constexpr unsigned kWaterfillScaleBytes = kSuperGroup / kPack;

// What a super-group of width 0 decodes with: the mean, unless some rank's values were not finite.
__device__ __forceinline__ float left_out_unit(std::uint32_t energy) {
  return __uint_as_float(energy < kInfinityBits ? 0 : std::uint32_t{kBfloat16Nan} << 16);
}

template <unsigned kWidth>
__device__ __forceinline__ WaterfillGrid grid_of_width(unsigned width) {
  if constexpr (kWidth != 0) {
    constexpr WaterfillGrid kGrid(kWidth);
    return kGrid;
  }
  return WaterfillGrid(max(width, kWaterfillLeastWidth));
}

// The same where the step is known, without a division.
template <unsigned kWidth>
__device__ __forceinline__ WaterfillGrid waterfill_grid(unsigned width, float step) {
  if constexpr (kWidth != 0) return grid_of_width<kWidth>(width);
  WaterfillGrid grid;
  grid.centre = static_cast<float>((1u << (max(width, kWaterfillLeastWidth) - 1)) - 2);
  grid.step = step;
  return grid;
}

// The words of a lane's draws: word k serves elements k of both of its runs.
struct DrawWords {
  std::uint32_t start = 0;  // of the lane's first word
  std::uint32_t twist = 0;

  // A lane's words are as many as its run is long, in the order of lanes.
  template <int kRun>
  __device__ __forceinline__ DrawWords(std::uint32_t key_start, std::uint32_t key_twist,
                                       const Lane<kRun>& lane)
      : start(key_start + lane.index * kRun * kWordStride), twist(key_twist) {}

  // What kWordMultiplier multiplies.
  __device__ __forceinline__ std::uint32_t factor(int k) const {
    const std::uint32_t x = start + static_cast<std::uint32_t>(k) * kWordStride;
    return x ^ (x >> 16) ^ twist;
  }
};

// The two dithers of a word w = y ^ (y >> 16): the high half of w is that of y.
__device__ __forceinline__ void dithers(std::uint32_t factor, float& low, float& high) {
  constexpr std::uint32_t kDraw = 0x007fff80u;
  const std::uint32_t high_bits = masked_or(factor * kWordMultiplier >> 9, kDraw, kDitherBits);
  high = __uint_as_float(high_bits);
  low = __uint_as_float(high_bits ^ (factor * (kWordMultiplier << 7) & kDraw));
}

// Four codes of up to 7 bits, each less its dither: exact in FP32. With d the complement of the
// draw, code - dither = (128 + code + d / 65536) - (130 - 2^-17). The bracket on the left is put
// together from bytes; that on the right takes 25 bits, but is a product of two numbers.
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

// Adds what a lane's codes stand for to its values, or puts it in their place.
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

// What encoding a super-group makes besides its codes.
struct WaterfillScales {
  std::uint16_t unit = 0;  // BF16
  unsigned byte = 0;       // the two scales of this lane's group
  bool has_codes = false;  // else its codes are zeros
};

// Encodes a lane's centred values.
template <int kRun, unsigned kWidth>
__device__ __forceinline__ WaterfillScales encode_runs(const WaterfillGrid& grid,
                                                       const Lane<kRun>& lane, unsigned width,
                                                       const DrawWords& draws,
                                                       const Runs<kRun>& centred, bool is_written,
                                                       std::byte* group) {
  const std::uint32_t own_peak = half_group_peak<kRun>(lane.part, centred);
  const std::uint32_t peak = max_of_lanes<Lane<kRun>::kTeam>(own_peak);
  WaterfillScales scales;
  scales.has_codes = peak >= kLeastPeakBits && peak < kPoisonBits;
  const std::uint32_t unit_bits =
      __float_as_uint(__uint_as_float(peak) * kPeakToScaleUnit) + 0xffffu & 0xffff0000u;
  const float unit = __uint_as_float(unit_bits);
  scales.unit = static_cast<std::uint16_t>(
      scales.has_codes ? unit_bits >> 16 : (peak >= kPoisonBits ? kBfloat16Nan : 0));

  // The least scale with scale * unit >= peak, products being exact: a rounded quotient is right or
  // one too low.
  const float own = __uint_as_float(own_peak);
  constexpr float kWhole = 0x1.8p23f;
  float scale = __fmaf_rn(own, reciprocal_estimate(unit), kWhole) - kWhole;
  if (scale * unit < own) scale += 1.0f;
  scale = fminf(fmaxf(scale, float{kLeastScale}), float{kMostScale});
  const bool is_zero = own_peak == 0;
  const float own_inverse = is_zero ? 0.0f : reciprocal(scale * unit * grid.step);
  const unsigned own_code = is_zero ? 0 : __float_as_uint(scale + (0x1p23f - 4.0f)) & 15u;
  const unsigned other_code = from_neighbour(own_code, 1);
  scales.byte = scales.has_codes ? own_code | other_code << 4 : 0;  // as even lanes see it

  float low_inverse;
  float high_inverse;
  exchange(lane.part, own_inverse, low_inverse, high_inverse);
  // Rounds to a whole number in the low bits; the centre is even, so ties stay as they are.
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
    if (is_written) store_words(lower.low, group + lane.first);
  } else {
    write_codes<kRun>(lower, upper, width, lane.part, is_written, group);
  }
  return scales;
}

}  // namespace nf::device
