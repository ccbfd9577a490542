// waterfill on the device (docs/codecs/waterfill.md).
#include "cuda/device/waterfill.cuh"

#include <cmath>

#include "cuda/make_device_codecs.h"
#include "cuda/super_group.h"

namespace nf::cuda {
namespace {

using device::Lane;
using device::Runs;
using device::RunWords;
using device::Segment;
using device::SuperGroupJob;
using device::SuperGroupLayout;
using device::SuperGroupMessage;
using In = SuperGroupMessage<const std::byte>;
using Out = SuperGroupMessage<std::byte>;

constexpr unsigned kScaleBytes = device::kWaterfillScaleBytes;

enum class Op { kEncode, kDecode, kDecodeAdd, kDecodeAddEncode };

// What there is to know of one super-group, in shared memory: a lane works it out, a team uses it.
struct alignas(16) Facts {
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

__device__ __forceinline__ float unit_of(const std::byte* message, std::uint32_t at) {
  return bfloat16_to_float(*reinterpret_cast<const std::uint16_t*>(message + at));
}

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
__device__ __forceinline__ WaterfillGrid grid_of(unsigned width, float step) {
  if constexpr (kWidth != 0) return grid_of_width<kWidth>(width);
  WaterfillGrid grid;
  grid.centre = static_cast<float>((1u << (max(width, kWaterfillLeastWidth) - 1)) - 2);
  grid.step = step;
  return grid;
}

template <DataType kType, Op kOp, unsigned kWidth>
__global__ void __launch_bounds__(device::kSuperGroupThreads, 4)
    run(SuperGroupJob job, SuperGroupLayout layout, In in, Out out, std::uint64_t out_size) {
  constexpr bool kReadsValues = kOp != Op::kDecode;
  constexpr bool kDecodes = kOp != Op::kEncode;
  constexpr bool kEncodes = kOp == Op::kEncode || kOp == Op::kDecodeAddEncode;
  constexpr int kRun = kType == DataType::kFloat32 ? 4 : 8;
  __shared__ Facts facts_of_all[device::kSuperGroupThreads / device::kWarp][device::kWarp];
  Facts* const facts = facts_of_all[threadIdx.x / device::kWarp];
  const Lane<kRun> lane;
  job.find_bounds();

  device::for_each_segment<Lane<kRun>::kTeams>(job, [&](const Segment& segment) {
    const std::uint32_t own = threadIdx.x % device::kWarp;
    if (own < segment.count) {
      const std::uint64_t block = segment.piece.first / kSuperGroup + segment.first + own;
      const SuperGroupPlace place = device::place_of<kScaleBytes>(layout, segment, own);
      const std::uint32_t statistics = segment.statistics(own);
      Facts mine;
      mine.mean = __uint_as_float(statistics << 16);
      if constexpr (kDecodes) {
        mine.unit = place.width == 0 ? left_out_unit(statistics & 0xffff0000u)
                                     : unit_of(in.bytes, place.units);
        const DrawKey key = device::block_key(job.step_key, segment.piece.parameter, in.encoder,
                                              DrawPurpose::kDither, block);
        mine.in_start = key.start;
        mine.in_twist = key.twist;
      }
      if constexpr (kEncodes) {
        const DrawKey key = device::block_key(job.step_key, segment.piece.parameter, out.encoder,
                                              DrawPurpose::kDither, block);
        mine.out_start = key.start;
        mine.out_twist = key.twist;
      }
      mine.scales = place.scales;
      mine.codes = place.codes;
      mine.width = place.width;
      mine.grid_step = grid_of_width<kWidth>(place.width).step;
      mine.units = place.units;
      facts[own] = mine;
    }
    __syncwarp();

    // Super-group i of the team's.
    const std::uint32_t base = lane.team * segment.each;
    const auto step = [&]<bool kWhole>(std::uint32_t i) {
      const Facts& known = facts[base + i];
      // Values that lie from this lane's first one on.
      const int held = kWhole ? 0 : static_cast<int>(segment.held(base + i) - lane.element);
      const unsigned width = kWidth != 0 ? kWidth : known.width;
      const bool has_bytes =
          (kWhole || held > -static_cast<int>(lane.first)) && (kWidth != 0 || width != 0);
      const std::uint32_t scales_at = known.scales + lane.group;
      const std::uint32_t codes_at =
          known.codes + lane.group * static_cast<unsigned>(group_bytes(width));
      const WaterfillGrid grid = grid_of<kWidth>(width, known.grid_step);

      std::byte* const at = segment.values<kType>(base + i, lane.element);
      RunWords<kType, kRun> words;
      if constexpr (kReadsValues) words.template load<kWhole>(at, held);
      Runs<kRun> values;
      if constexpr (kDecodes) {
        unsigned scale_byte = 0;
        device::PackedCodes<kRun, kWidth> packed;
        if (has_bytes) {
          scale_byte = std::to_integer<unsigned>(in.bytes[scales_at]);
          packed.load(in.bytes + codes_at, width, lane.first);
        }
        if constexpr (kReadsValues) words.widen_to(values);
        const device::DrawWords draws(known.in_start, known.in_twist, lane);
        device::decode_runs<kRun, kWidth, kReadsValues>(grid, lane, width, draws, known.unit,
                                                        in.contributions * known.mean, scale_byte,
                                                        packed, values);
        if constexpr (!kEncodes) {
          words.narrow_from(values, kReadsValues || known.unit != known.unit);
          words.template store<kWhole>(at, held);
        }
      } else {
        words.widen_to(values);
      }
      if constexpr (kEncodes) {
        device::centre<kWhole>(out.contributions * known.mean, held, values);
        const device::DrawWords draws(known.out_start, known.out_twist, lane);
        const device::WaterfillScales scales = device::encode_runs<kRun, kWidth>(
            grid, lane, width, draws, values, has_bytes, out.bytes + codes_at);
        if (lane.part == 0 && has_bytes) {
          out.bytes[scales_at] = static_cast<std::byte>(scales.byte);
        }
        if (lane.index == 0) facts[base + i].out_unit = scales.unit;
      }
    };
    const std::uint32_t whole = segment.whole_of(Lane<kRun>::kTeams);
#pragma unroll 1
    for (std::uint32_t i = 0; i < whole; ++i) step.template operator()<true>(i);
#pragma unroll 1
    for (std::uint32_t i = whole; i < segment.each; ++i) step.template operator()<false>(i);
    __syncwarp();
    if constexpr (kEncodes) {
      if (own < segment.count && facts[own].width != 0) {
        *reinterpret_cast<std::uint16_t*>(out.bytes + facts[own].units) =
            static_cast<std::uint16_t>(facts[own].out_unit);
      }
      device::clear_padding<kScaleBytes>(layout, segment, out.bytes);
      __syncwarp();
    }
  });
  if constexpr (kEncodes) device::clear_rest<kScaleBytes>(job, layout, out.bytes, out_size);
}

struct Folded {
  std::uint32_t count = 0;
  In messages[DeviceCodec::kMostFolded];
};

struct alignas(16) FoldFacts {
  SuperGroupPlace from;
  SuperGroupPlace to;

  float mean = 0;
  float left_out_unit = 0;
  float in_grid_step = 0;
  float out_grid_step = 0;

  std::uint32_t out_start = 0;
  std::uint32_t out_twist = 0;
};

// The widths of the messages read and of the one written may differ.
template <DataType kType, unsigned kWidth>
__global__ void __launch_bounds__(device::kSuperGroupThreads, kWidth == 0 ? 3 : 4)
    fold(SuperGroupJob job, SuperGroupLayout in_layout, SuperGroupLayout layout,
         __grid_constant__ const Folded in, Out out, std::uint64_t out_size) {
  constexpr int kRun = kType == DataType::kFloat32 ? 4 : 8;
  constexpr unsigned kTeam = Lane<kRun>::kTeam;
  __shared__ FoldFacts facts_of_all[device::kSuperGroupThreads / device::kWarp][device::kWarp];
  FoldFacts* const facts = facts_of_all[threadIdx.x / device::kWarp];
  const Lane<kRun> lane;
  job.find_bounds();

  device::for_each_segment<Lane<kRun>::kTeams>(job, [&](const Segment& segment) {
    const std::uint32_t own = threadIdx.x % device::kWarp;
    const std::uint64_t first_block = segment.piece.first / kSuperGroup + segment.first;
    if (own < segment.count) {
      FoldFacts mine;
      mine.from = device::place_of<kScaleBytes>(in_layout, segment, own);
      mine.to = device::place_of<kScaleBytes>(layout, segment, own);
      const std::uint32_t statistics = segment.statistics(own);
      mine.mean = __uint_as_float(statistics << 16);
      mine.left_out_unit = left_out_unit(statistics & 0xffff0000u);
      mine.in_grid_step = grid_of_width<kWidth>(mine.from.width).step;
      mine.out_grid_step = grid_of_width<kWidth>(mine.to.width).step;
      const DrawKey key = device::block_key(job.step_key, segment.piece.parameter, out.encoder,
                                            DrawPurpose::kDither, first_block + own);
      mine.out_start = key.start;
      mine.out_twist = key.twist;
      facts[own] = mine;
    }
    __syncwarp();

    // Super-group i of the team's.
    const std::uint32_t base = lane.team * segment.each;
    const auto step = [&]<bool kWhole>(std::uint32_t i) {
      const FoldFacts& known = facts[base + i];
      const int held = kWhole ? 0 : static_cast<int>(segment.held(base + i) - lane.element);
      const bool has_group = kWhole || held > -static_cast<int>(lane.first);
      RunWords<kType, kRun> words;
      words.template load<kWhole>(segment.values<kType>(base + i, lane.element), held);
      Runs<kRun> values;
      words.widen_to(values);

      const SuperGroupPlace from = known.from;
      const unsigned in_width = kWidth != 0 ? kWidth : from.width;
      const WaterfillGrid in_grid = grid_of<kWidth>(in_width, known.in_grid_step);
      const bool is_read = has_group && in_width != 0;
      const std::uint32_t scales_at = from.scales + lane.group;
      const std::uint32_t codes_at =
          from.codes + lane.group * static_cast<unsigned>(group_bytes(in_width));
      // As many messages as a team has lanes have their keys made at once.
      DrawKey own_key(DrawStream(0, 0, 0, 0, DrawPurpose::kDither), 0);
#pragma unroll 1
      for (std::uint32_t m = 0; m < in.count; ++m) {
        const In& message = in.messages[m];
        device::PackedCodes<kRun, kWidth> packed;
        unsigned scale_byte = 0;
        float unit = known.left_out_unit;
        if (is_read) {
          unit = unit_of(message.bytes, from.units);
          scale_byte = std::to_integer<unsigned>(message.bytes[scales_at]);
          packed.load(message.bytes + codes_at, in_width, lane.first);
        }
        if (m % kTeam == 0) {
          own_key = device::block_key(job.step_key, segment.piece.parameter,
                                      in.messages[min(m + lane.index, in.count - 1)].encoder,
                                      DrawPurpose::kDither, first_block + base + i);
        }
        const device::DrawWords draws(device::from_lane<kTeam>(own_key.start, m % kTeam),
                                      device::from_lane<kTeam>(own_key.twist, m % kTeam), lane);
        device::decode_runs<kRun, kWidth, true>(in_grid, lane, in_width, draws, unit,
                                                message.contributions * known.mean, scale_byte,
                                                packed, values);
      }

      const SuperGroupPlace to = known.to;
      const unsigned width = kWidth != 0 ? kWidth : to.width;
      const bool is_written = has_group && width != 0;
      device::centre<kWhole>(out.contributions * known.mean, held, values);
      const device::DrawWords draws(known.out_start, known.out_twist, lane);
      const device::WaterfillScales scales = device::encode_runs<kRun, kWidth>(
          grid_of<kWidth>(width, known.out_grid_step), lane, width, draws, values, is_written,
          out.bytes + to.codes + lane.group * static_cast<unsigned>(group_bytes(width)));
      if (lane.part == 0 && is_written) {
        out.bytes[to.scales + lane.group] = static_cast<std::byte>(scales.byte);
        if (lane.group == 0) {
          *reinterpret_cast<std::uint16_t*>(out.bytes + to.units) = scales.unit;
        }
      }
    };
    const std::uint32_t whole = segment.whole_of(Lane<kRun>::kTeams);
#pragma unroll 1
    for (std::uint32_t i = 0; i < whole; ++i) step.template operator()<true>(i);
#pragma unroll 1
    for (std::uint32_t i = whole; i < segment.each; ++i) step.template operator()<false>(i);
    device::clear_padding<kScaleBytes>(layout, segment, out.bytes);
    __syncwarp();
  });
  device::clear_rest<kScaleBytes>(job, layout, out.bytes, out_size);
}

class WaterfillDevice final : public SuperGroupDevice {
 public:
  explicit WaterfillDevice(unsigned width) : SuperGroupDevice(width) {}

  Status encode(const Batch& batch, const DeviceMessage& out, cudaStream_t stream) const override {
    if (batch.blocks == 0) return clear(out, stream);
    return start<Op::kEncode>("waterfill encode", batch, layout(out), {}, wire(out), out.size,
                              stream);
  }

  Status decode(const Batch& batch, const ConstDeviceMessage& in,
                cudaStream_t stream) const override {
    return start<Op::kDecode>("waterfill decode", batch, layout(in), wire(in), {}, 0, stream);
  }

  Status decode_add(const Batch& batch, const ConstDeviceMessage& in,
                    cudaStream_t stream) const override {
    return start<Op::kDecodeAdd>("waterfill decode_add", batch, layout(in), wire(in), {}, 0,
                                 stream);
  }

  Status decode_add_encode(const Batch& batch, const ConstDeviceMessage& in,
                           const DeviceMessage& out, cudaStream_t stream) const override {
    if (batch.blocks == 0) return clear(out, stream);
    return start<Op::kDecodeAddEncode>("waterfill decode_add_encode", batch, layout(out), wire(in),
                                       wire(out), out.size, stream);
  }

  Status fold_encode(const Batch& batch, std::span<const ConstDeviceMessage> in,
                     const DeviceMessage& out, cudaStream_t stream) const override {
    if (batch.blocks == 0) return clear(out, stream);
    if (in.size() > kMostFolded) {
      return {ErrorCode::kInvalidArgument, "more messages than can be added at once"};
    }
    Folded folded;
    for (const ConstDeviceMessage& message : in) folded.messages[folded.count++] = wire(message);
    const SuperGroupJob work = job(batch);
    const SuperGroupLayout in_layout = in.empty() ? layout(out) : layout(in[0]);
    return with_type(batch.type, [&](auto type) {
      return launch("waterfill fold_encode", width() == 4 ? fold<type(), 4> : fold<type(), 0>,
                    grid(work), device::kSuperGroupThreads, stream, work, in_layout, layout(out),
                    folded, wire(out), out.size);
    });
  }

 private:
  template <Op kOp>
  Status start(const char* name, const Batch& batch, const SuperGroupLayout& layout, const In& in,
               const Out& out, std::uint64_t out_size, cudaStream_t stream) const {
    const SuperGroupJob work = job(batch);
    return with_type(batch.type, [&](auto type) {
      return launch(name, width() == 4 ? run<type(), kOp, 4> : run<type(), kOp, 0>, grid(work),
                    device::kSuperGroupThreads, stream, work, layout, in, out, out_size);
    });
  }
};

}  // namespace

DeviceCodecResult make_device_waterfill(const Codec& codec) {
  const Expected<double> width =
      codec.spec().number("width", 0, kWaterfillLeastWidth, kWaterfillMostWidth);
  if (!width) return width.status();
  return std::unique_ptr<DeviceCodec>(
      std::make_unique<WaterfillDevice>(static_cast<unsigned>(*width)));
}

}  // namespace nf::cuda
