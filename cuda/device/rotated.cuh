// rotated's arithmetic (docs/codecs/rotated.md), and its policy for super_group_kernels.cuh.
#pragma once

#include <cstdint>

#include "cuda/device/draws.cuh"
#include "cuda/device/rotation.cuh"
#include "cuda/device/run_codes.cuh"
#include "cuda/device/super_group_layout.cuh"

namespace nf::device {

inline constexpr unsigned kRotatedEntries = (1u << kRotatedMaxWidth) - 1;  // of all widths

struct RotatedTables {
  float levels[kRotatedEntries];
  float thresholds[kRotatedEntries];
};

constexpr RotatedTables make_rotated_tables() {
  RotatedTables tables{};
  for (unsigned i = 0; i < kRotatedEntries; ++i) {
    tables.levels[i] = kRotatedLevels[i];
    tables.thresholds[i] = kRotatedThresholds[i];
  }
  return tables;
}
static __device__ const RotatedTables kDeviceTables = make_rotated_tables();

// The tables in shared memory. All threads of the block take part.
__device__ __forceinline__ const RotatedTables& load_rotated_tables() {
  __shared__ RotatedTables tables;
  for (unsigned i = threadIdx.x; i < kRotatedEntries; i += blockDim.x) {
    tables.levels[i] = kDeviceTables.levels[i];
    tables.thresholds[i] = kDeviceTables.thresholds[i];
  }
  __syncthreads();
  return tables;
}

// The levels of one width.
template <unsigned kWidth>
struct RotatedLevels {
  const float* levels;
  const float* thresholds;
  std::uint32_t count;  // a power of two

  // Any width is accepted: teams without a super-group in the last round have an arbitrary one.
  __device__ __forceinline__ RotatedLevels(const RotatedTables& tables, unsigned width)
      : count(1u << (min(max(kWidth != 0 ? kWidth : width, kRotatedMinWidth), kRotatedMaxWidth) -
                     1)) {
    levels = tables.levels + count - 1;
    thresholds = tables.thresholds + count - 1;
  }

  // The level of a magnitude by bisection. kLevels: `count`, or 0 if it is only known at run time;
  // small tables are compared as constants instead of reading shared memory.
  template <std::uint32_t kLevels>
  __device__ __forceinline__ std::uint32_t index_of(float magnitude) const {
    std::uint32_t index = 0;
    if constexpr (kLevels == 0) {
      for (std::uint32_t step = count / 2; step > 0; step /= 2) {
        if (magnitude >= thresholds[index + step]) index += step;
      }
    } else if constexpr (kLevels == 2) {
      index = magnitude >= threshold<2, 1>() ? 1 : 0;
    } else if constexpr (kLevels == 4) {
      const bool high = magnitude >= threshold<4, 2>();
      const float next = high ? threshold<4, 3>() : threshold<4, 1>();
      index = (high ? 2 : 0) + (magnitude >= next ? 1 : 0);
    } else if constexpr (kLevels == 8) {
      const bool high = magnitude >= threshold<8, 4>();
      const float middle = high ? threshold<8, 6>() : threshold<8, 2>();
      const bool middle_high = magnitude >= middle;
      const float upper = high ? threshold<8, 7>() : threshold<8, 3>();
      const float lower = high ? threshold<8, 5>() : threshold<8, 1>();
      index = (high ? 4 : 0) + (middle_high ? 2 : 0) +
              (magnitude >= (middle_high ? upper : lower) ? 1 : 0);
    }
    return index;
  }

  // The codes of z, and the products of |z| and its level.
  template <std::uint32_t kLevels>
  __device__ __forceinline__ void quantise(const RotatedValues& z,
                                           std::uint32_t (&codes)[kRotatedValues],
                                           RotatedValues& terms) const {
#pragma unroll
    for (int k = 0; k < kRotatedValues; ++k) {
      const std::uint32_t index = index_of<kLevels>(fabsf(z[k]));
      terms[k] = fabsf(z[k]) * levels[index];
      codes[k] = (__float_as_uint(z[k]) >> 31) * count + index;
    }
  }
  __device__ __forceinline__ void quantise(const RotatedValues& z,
                                           std::uint32_t (&codes)[kRotatedValues],
                                           RotatedValues& terms) const {
    if constexpr (kWidth != 0) {
      static_assert(kWidth == 4);
      quantise<8>(z, codes, terms);
    } else {
      switch (count) {
        case 1: quantise<1>(z, codes, terms); break;
        case 2: quantise<2>(z, codes, terms); break;
        case 4: quantise<4>(z, codes, terms); break;
        case 8: quantise<8>(z, codes, terms); break;
        default: quantise<0>(z, codes, terms); break;
      }
    }
  }

  __device__ __forceinline__ float level(std::uint32_t code) const {
    const float magnitude = levels[code & (count - 1)];
    return (code & count) != 0 ? -magnitude : magnitude;
  }

 private:
  template <std::uint32_t kLevels, std::uint32_t kIndex>
  static constexpr float threshold() {
    constexpr float kThreshold = kRotatedThresholds[kLevels - 1 + kIndex];
    return kThreshold;
  }
};

// The results of encoding besides the codes.
struct RotatedScale {
  std::uint16_t unit = 0;  // BF16
};

template <DataType kType, unsigned kCommonWidth>
class RotatedPolicy {
 public:
  static constexpr unsigned kWidth = kCommonWidth;
  static constexpr int kRun = kRotatedRun;
  static constexpr unsigned kScaleBytes = 0;
  static constexpr bool kPadsPacks = true;

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
    std::uint32_t units = 0;
    std::uint32_t out_unit = 0;
  };

  struct alignas(16) FoldParams {
    cuda::SuperGroupOffsets from;
    cuda::SuperGroupOffsets to;

    float mean = 0;
    float left_out_unit = 0;
    std::uint32_t out_start = 0;
    std::uint32_t out_twist = 0;
  };

  using Grid = RotatedLevels<kWidth>;

  // The levels and the signs of one message.
  struct Source {
    Grid grid;
    RotationSigns signs;
  };

  // The same for folded messages. The lanes of a team compute the keys of as many messages at once.
  struct Sources {
    Grid grid;
    DrawKey key{DrawStream(0, 0, 0, 0, DrawPurpose::kRotation), 0};

    __device__ __forceinline__ Source next(const SuperGroupJob& job, const Segment& segment,
                                           std::uint32_t i, const SuperGroupFolded& in,
                                           std::uint32_t m, const RotatedLane& lane) {
      constexpr unsigned kTeam = RotatedLane::kTeam;
      if (m % kTeam == 0) {
        key = signs_key(job, segment, i, in.messages[min(m + lane.index, in.count - 1)].encoder);
      }
      return {grid, RotationSigns(from_lane<kTeam>(key.start, m % kTeam),
                                  from_lane<kTeam>(key.twist, m % kTeam), lane)};
    }
  };

  explicit __device__ __forceinline__ RotatedPolicy(const RotatedTables& tables)
      : tables_(tables) {}

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
      const DrawKey key = signs_key(job, segment, i, in.encoder);
      params.in_start = key.start;
      params.in_twist = key.twist;
    }
    if constexpr (kEncodes) {
      const DrawKey key = signs_key(job, segment, i, out.encoder);
      params.out_start = key.start;
      params.out_twist = key.twist;
    }
  }

  __device__ __forceinline__ void set_params(const SuperGroupJob& job, const Segment& segment,
                                             std::uint32_t i,
                                             const SuperGroupMessage<std::byte>& out,
                                             FoldParams& params) const {
    params.left_out_unit = device::left_out_unit(segment.statistics(i) & 0xffff0000u);
    const DrawKey key = signs_key(job, segment, i, out.encoder);
    params.out_start = key.start;
    params.out_twist = key.twist;
  }

  __device__ __forceinline__ Grid grid(const Params& /*params*/, unsigned width) const {
    return Grid(tables_, width);
  }
  __device__ __forceinline__ Grid in_grid(const FoldParams& /*params*/, unsigned width) const {
    return Grid(tables_, width);
  }
  __device__ __forceinline__ Grid out_grid(const FoldParams& /*params*/, unsigned width) const {
    return Grid(tables_, width);
  }

  __device__ __forceinline__ Source source(const Grid& grid, const Params& params,
                                           const RotatedLane& lane) const {
    return {grid, RotationSigns(params.in_start, params.in_twist, lane)};
  }
  __device__ __forceinline__ Sources sources(const Grid& grid) const { return {grid}; }
  __device__ static float absent_unit(const FoldParams& params) { return params.left_out_unit; }

  __device__ __forceinline__ unsigned load_scales(const std::byte* /*scales*/,
                                                  const RotatedLane& /*lane*/, int /*held*/) const {
    return 0;
  }
  __device__ __forceinline__ void store_scales(const RotatedLane& /*lane*/,
                                               const RotatedScale& /*scale*/, int /*held*/,
                                               bool /*is_written*/, std::byte* /*to*/) const {}

  template <bool kAdd>
  __device__ __forceinline__ void decode(const Source& source, const RotatedLane& lane,
                                         unsigned width, float unit, float mean,
                                         unsigned /*scales*/,
                                         const PackedCodes<kRun, kWidth>& packed,
                                         Runs<kRun>& values) const {
    const RunBytes<kRun> codes = packed.lower(width, lane.first);
    RotatedValues x;
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
      // Bits above the code are ignored.
      x[k] = source.grid.level(codes.low[k / 4] >> k % 4 * 8);
      x[kRun + k] = source.grid.level(codes.high[k / 4] >> k % 4 * 8);
    }
    rotate(lane, source.signs, x);
    source.signs.flip(lane, x);
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
      const float low = __fmaf_rn(x[k], unit, mean);
      const float high = __fmaf_rn(x[kRun + k], unit, mean);
      values.low[k] = kAdd ? values.low[k] + low : low;
      values.high[k] = kAdd ? values.high[k] + high : high;
    }
  }

  template <typename AnyParams>
  __device__ __forceinline__ RotatedScale encode(const Grid& grid, const AnyParams& params,
                                                 const RotatedLane& lane, unsigned width,
                                                 const Runs<kRun>& centred, bool is_written,
                                                 std::byte* pack) const {
    RotatedValues x;
    load_runs(centred, x);
    float own_peak = 0;
#pragma unroll
    for (int k = 0; k < kRotatedValues; ++k) own_peak = max_magnitude(own_peak, x[k]);
    const std::uint32_t peak = max_of_lanes<RotatedLane::kTeam>(__float_as_uint(own_peak));
    const bool has_codes = peak >= kMinPeakBits && peak < kPoisonBits;
    const std::uint32_t exponent = has_codes ? peak & kInfinityBits : __float_as_uint(1.0f);
    const float inverse_power = __uint_as_float((254u << 23) - exponent);

    RotatedValues terms;
#pragma unroll
    for (int k = 0; k < kRotatedValues; ++k) {
      x[k] *= inverse_power;
      terms[k] = x[k] * x[k];
    }
    const float norm = sum_of_team(terms);
    const float normalise = __fdiv_rn(0.0625f, __fsqrt_rn(norm));
    const RotationSigns signs(params.out_start, params.out_twist, lane);
    signs.flip(lane, x);
    rotate(lane, signs, x);

#pragma unroll
    for (int k = 0; k < kRotatedValues; ++k) x[k] *= normalise;
    std::uint32_t codes[kRotatedValues];
    grid.quantise(x, codes, terms);
#pragma unroll
    for (int k = 0; k < kRotatedValues; ++k) codes[k] = has_codes ? codes[k] : 0;
    const float product = sum_of_team(terms);
    const float unit =
        __fmul_rn(__fdiv_rn(__fmul_rn(norm, normalise), product), __uint_as_float(exponent));
    DrawKey key{DrawStream(0, 0, 0, 0, DrawPurpose::kRotation), 0};
    key.start = params.out_start;
    key.twist = params.out_twist;
    const std::uint32_t draw = draw_word(key, kRotatedUnitWord) & 0xffffu;
    write(lane, width, codes, is_written, pack);
    const std::uint32_t rounded = __float_as_uint(unit) + draw;
    return {static_cast<std::uint16_t>(has_codes             ? rounded >> 16
                                       : peak >= kPoisonBits ? kBfloat16Nan
                                                             : 0)};
  }

 private:
  __device__ static __forceinline__ DrawKey signs_key(const SuperGroupJob& job,
                                                      const Segment& segment, std::uint32_t i,
                                                      std::uint32_t encoder) {
    return block_key(job.step_key, segment.piece.parameter, encoder, DrawPurpose::kRotation,
                     segment.block_in_parameter(i));
  }

  __device__ static __forceinline__ void write(const RotatedLane& lane, unsigned width,
                                               const std::uint32_t (&codes)[kRotatedValues],
                                               bool is_written, std::byte* pack) {
    RunBytes<kRun> bytes;
#pragma unroll
    for (int w = 0; w < kRun / 4; ++w) {
      std::uint32_t low[4];
      std::uint32_t high[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        low[k] = codes[4 * w + k];
        high[k] = codes[kRun + 4 * w + k];
        if constexpr (kWidth == 4) low[k] += high[k] * 16;
      }
      bytes.low[w] = low_bytes(low);
      if constexpr (kWidth == 0) bytes.high[w] = low_bytes(high);
    }
    if constexpr (kWidth == 4) {
      if (is_written) store_words(bytes.low, pack + lane.first);
    } else {
      write_codes<kRun>(bytes, RunBytes<kRun>(), width, lane.part, is_written, pack);
    }
  }

  const RotatedTables& tables_;
};

}  // namespace nf::device
