// waterfill on the device (docs/codecs/waterfill.md): all but what folds messages.
#include "cuda/codec/waterfill.h"

#include "cuda/codec/make_device_codecs.h"
#include "cuda/device/waterfill.cuh"

namespace nf::cuda {
namespace {

using device::Lane;
using device::Runs;
using device::RunWords;
using device::Segment;
using device::SuperGroupFolded;
using device::SuperGroupJob;
using device::SuperGroupLayout;
using device::SuperGroupMessage;
using device::SuperGroupOp;
using In = SuperGroupMessage<const std::byte>;
using Out = SuperGroupMessage<std::byte>;

constexpr unsigned kScaleBytes = device::kWaterfillScaleBytes;

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

// Thread blocks that a multiprocessor holds: to decode codes of one width takes few registers.
constexpr unsigned resident_blocks(SuperGroupOp op, unsigned width) {
  return op == SuperGroupOp::kDecode && width == 4 ? 5 : 4;
}

template <DataType kType, SuperGroupOp kOp, unsigned kWidth>
__global__ void __launch_bounds__(device::kSuperGroupThreads, resident_blocks(kOp, kWidth))
    transform(SuperGroupJob job, SuperGroupLayout layout, In in, Out out, std::uint64_t out_size) {
  constexpr bool kReadsValues = kOp != SuperGroupOp::kDecode;
  constexpr bool kDecodes = kOp != SuperGroupOp::kEncode;
  constexpr bool kEncodes = kOp == SuperGroupOp::kEncode || kOp == SuperGroupOp::kDecodeAddEncode;
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
        mine.unit = place.width == 0 ? device::left_out_unit(statistics & 0xffff0000u)
                                     : device::unit_of(in.bytes, place.units);
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
      mine.grid_step = device::grid_of_width<kWidth>(place.width).step;
      mine.units = place.units;
      facts[own] = mine;
    }
    __syncwarp();

    // The team's super-group of a round.
    const auto step = [&]<bool kWhole>(std::uint32_t round) {
      const std::uint32_t i = Lane<kRun>::kTeams * round + lane.team;
      const Facts& known = facts[i];
      // Values that lie from this lane's first one on.
      const int held = kWhole ? 0 : static_cast<int>(segment.held(i) - lane.element);
      const unsigned width = kWidth != 0 ? kWidth : known.width;
      const bool has_bytes =
          (kWhole || held > -static_cast<int>(lane.first)) && (kWidth != 0 || width != 0);
      const std::uint32_t scales_at = known.scales + lane.group;
      const std::uint32_t codes_at =
          known.codes + lane.group * static_cast<unsigned>(pack_bytes(width));
      const WaterfillGrid grid = device::waterfill_grid<kWidth>(width, known.grid_step);

      std::byte* const at = segment.values<kType>(i, lane.element);
      RunWords<kType, kRun> words;
      if constexpr (kReadsValues) words.template load<kWhole>(at, held);
      Runs<kRun> values;
      if constexpr (kDecodes) {
        unsigned scale_byte = 0;
        device::PackedCodes<kRun, kWidth> packed = {};
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
        if (lane.index == 0) facts[i].out_unit = scales.unit;
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

class WaterfillDevice final : public SuperGroupDevice {
 public:
  explicit WaterfillDevice(unsigned width) : SuperGroupDevice(width) {}

 protected:
  Status run(SuperGroupOp op, const SuperGroupLaunch& launch, const In& in) const override {
    switch (op) {
      case SuperGroupOp::kEncode: return run_as<SuperGroupOp::kEncode>(launch, in);
      case SuperGroupOp::kDecode: return run_as<SuperGroupOp::kDecode>(launch, in);
      case SuperGroupOp::kDecodeAdd: return run_as<SuperGroupOp::kDecodeAdd>(launch, in);
      case SuperGroupOp::kDecodeAddEncode: break;
    }
    return run_as<SuperGroupOp::kDecodeAddEncode>(launch, in);
  }

  Status fold(const SuperGroupLaunch& launch, const SuperGroupFolded& in) const override {
    return fold_waterfill(width(), launch, in);
  }

  unsigned decoding_blocks() const override {
    return resident_blocks(SuperGroupOp::kDecode, width());
  }

 private:
  template <SuperGroupOp kOp>
  Status run_as(const SuperGroupLaunch& to, const In& in) const {
    return with_type(to.type, [&](auto type) {
      return launch("waterfill",
                    width() == 4 ? transform<type(), kOp, 4> : transform<type(), kOp, 0>, to.grid,
                    device::kSuperGroupThreads, to.stream, to.job, to.layout, in, to.out,
                    to.out_size);
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
