// waterfill on the device: values and many messages make one message.
#include "cuda/codec/waterfill.h"
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
using In = SuperGroupMessage<const std::byte>;
using Out = SuperGroupMessage<std::byte>;

constexpr unsigned kScaleBytes = device::kWaterfillScaleBytes;

// What there is to know of one super-group, in shared memory: a lane works it out, a team uses it.
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
         __grid_constant__ const SuperGroupFolded in, Out out, std::uint64_t out_size) {
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
      mine.left_out_unit = device::left_out_unit(statistics & 0xffff0000u);
      mine.in_grid_step = device::grid_of_width<kWidth>(mine.from.width).step;
      mine.out_grid_step = device::grid_of_width<kWidth>(mine.to.width).step;
      const DrawKey key = device::block_key(job.step_key, segment.piece.parameter, out.encoder,
                                            DrawPurpose::kDither, first_block + own);
      mine.out_start = key.start;
      mine.out_twist = key.twist;
      facts[own] = mine;
    }
    __syncwarp();

    // The team's super-group of a round.
    const auto step = [&]<bool kWhole>(std::uint32_t round) {
      const std::uint32_t i = Lane<kRun>::kTeams * round + lane.team;
      const FoldFacts& known = facts[i];
      const int held = kWhole ? 0 : static_cast<int>(segment.held(i) - lane.element);
      const bool has_group = kWhole || held > -static_cast<int>(lane.first);
      RunWords<kType, kRun> words;
      words.template load<kWhole>(segment.values<kType>(i, lane.element), held);
      Runs<kRun> values;
      words.widen_to(values);

      const SuperGroupPlace from = known.from;
      const unsigned in_width = kWidth != 0 ? kWidth : from.width;
      const WaterfillGrid in_grid = device::waterfill_grid<kWidth>(in_width, known.in_grid_step);
      const bool is_read = has_group && in_width != 0;
      const std::uint32_t scales_at = from.scales + lane.group;
      const std::uint32_t codes_at =
          from.codes + lane.group * static_cast<unsigned>(pack_bytes(in_width));
      // As many messages as a team has lanes have their keys made at once.
      DrawKey own_key(DrawStream(0, 0, 0, 0, DrawPurpose::kDither), 0);
#pragma unroll 1
      for (std::uint32_t m = 0; m < in.count; ++m) {
        const In& message = in.messages[m];
        device::PackedCodes<kRun, kWidth> packed = {};
        unsigned scale_byte = 0;
        float unit = known.left_out_unit;
        if (is_read) {
          unit = device::unit_of(message.bytes, from.units);
          scale_byte = std::to_integer<unsigned>(message.bytes[scales_at]);
          packed.load(message.bytes + codes_at, in_width, lane.first);
        }
        if (m % kTeam == 0) {
          own_key = device::block_key(job.step_key, segment.piece.parameter,
                                      in.messages[min(m + lane.index, in.count - 1)].encoder,
                                      DrawPurpose::kDither, first_block + i);
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
          device::waterfill_grid<kWidth>(width, known.out_grid_step), lane, width, draws, values,
          is_written, out.bytes + to.codes + lane.group * static_cast<unsigned>(pack_bytes(width)));
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

}  // namespace

Status fold_waterfill(unsigned width, const SuperGroupLaunch& to, const SuperGroupFolded& in) {
  return with_type(to.type, [&](auto type) {
    return launch("waterfill fold_encode", width == 4 ? fold<type(), 4> : fold<type(), 0>, to.grid,
                  device::kSuperGroupThreads, to.stream, to.job, to.in_layout, to.layout, in,
                  to.out, to.out_size);
  });
}

}  // namespace nf::cuda
