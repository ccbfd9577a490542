// dynamiq on the device: values and many messages make one message.
#include "cuda/codec/dynamiq.h"

namespace nf::cuda {
namespace {

using device::DynamiqKeys;
using device::DynamiqLookups;
using device::DynamiqStrata;
using device::DynamiqTables;
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

constexpr unsigned kScaleBytes = device::kDynamiqScaleBytes;

// What there is to know of one super-group, in shared memory: a lane works it out, a team uses it.
struct alignas(16) FoldFacts {
  DynamiqKeys keys;
  SuperGroupPlace from;
  SuperGroupPlace to;
  float mean = 0;
};

// The widths of the messages read and of the one written may differ.
template <DataType kType, unsigned kWidth>
__global__ void __launch_bounds__(device::kSuperGroupThreads, 4)
    fold(SuperGroupJob job, SuperGroupLayout in_layout, SuperGroupLayout layout,
         __grid_constant__ const DynamiqTables tables, __grid_constant__ const DynamiqStrata strata,
         __grid_constant__ const SuperGroupFolded in, Out out, std::uint64_t out_size) {
  constexpr int kRun = device::kDynamiqRun<kType, kWidth>;
  __shared__ FoldFacts facts_of_all[device::kSuperGroupThreads / device::kWarp][device::kWarp];
  FoldFacts* const facts = facts_of_all[threadIdx.x / device::kWarp];
  const Lane<kRun> lane;
  job.find_bounds();
  const DynamiqLookups lookups(tables, strata.slope);

  device::for_each_segment<Lane<kRun>::kTeams>(job, [&](const Segment& segment) {
    const std::uint32_t own = threadIdx.x % device::kWarp;
    if (own < segment.count) {
      FoldFacts mine;
      mine.keys = DynamiqKeys(job.step_key, segment.piece.parameter, out.encoder, strata,
                              segment.piece.first / kSuperGroup + segment.first + own);
      mine.from = device::place_of<kScaleBytes>(in_layout, segment, own);
      mine.to = device::place_of<kScaleBytes>(layout, segment, own);
      mine.mean = segment.mean(own);
      facts[own] = mine;
    }
    __syncwarp();

    // The team's super-group of a round.
    const auto step = [&]<bool kWhole>(std::uint32_t round) {
      const std::uint32_t i = Lane<kRun>::kTeams * round + lane.team;
      const FoldFacts& known = facts[i];
      const int held =
          kWhole ? static_cast<int>(kPack) : static_cast<int>(segment.held(i) - lane.element);
      const bool has_group = kWhole || held > -static_cast<int>(lane.first);
      RunWords<kType, kRun> words;
      words.template load<kWhole>(segment.values<kType>(i, lane.element), held);
      Runs<kRun> values;
      words.widen_to(values);

      const SuperGroupPlace from = known.from;
      const unsigned in_width = kWidth != 0 ? kWidth : from.width;
      const std::uint32_t scales_at = from.scales + 2 * lane.group;
      const std::uint32_t codes_at =
          from.codes + lane.group * static_cast<unsigned>(pack_bytes(in_width));
#pragma unroll 1
      for (std::uint32_t m = 0; m < in.count; ++m) {
        const In& message = in.messages[m];
        device::PackedCodes<kRun, kWidth> packed = {};
        unsigned scale_bytes = 0;
        float unit = 0;
        if (has_group) {
          unit = device::unit_of(message.bytes, from.units);
          scale_bytes = device::dynamiq_scales(message.bytes + scales_at,
                                               held > 16 - static_cast<int>(lane.first));
          packed.load(message.bytes + codes_at, in_width, lane.first);
        }
        device::with_width<kWidth>(in_width, [&](auto bits) {
          device::decode_runs<kRun, bits(), true>(lookups, unit, message.contributions * known.mean,
                                                  scale_bytes, packed.lower(in_width, lane.first),
                                                  values);
        });
      }

      const SuperGroupPlace to = known.to;
      const unsigned width = kWidth != 0 ? kWidth : to.width;
      device::centre<kWhole>(out.contributions * known.mean, held, values);
      std::byte* const codes =
          out.bytes + to.codes + lane.group * static_cast<unsigned>(pack_bytes(width));
      const device::DynamiqScales scales = device::with_width<kWidth>(width, [&](auto bits) {
        return device::encode_runs<kRun, bits()>(lookups, strata, known.keys, lane, values,
                                                 has_group, codes);
      });
      device::put_dynamiq_scale(lane, scales.byte, held, out.bytes + to.scales + 2 * lane.group);
      if (lane.index == 0 && has_group) {
        *reinterpret_cast<std::uint16_t*>(out.bytes + to.units) = scales.unit;
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

Status fold_dynamiq(unsigned width, const DynamiqTables& tables, const DynamiqStrata& strata,
                    const SuperGroupLaunch& to, const SuperGroupFolded& in) {
  return with_type(to.type, [&](auto type) {
    return launch("dynamiq fold_encode", width == 4 ? fold<type(), 4> : fold<type(), 0>, to.grid,
                  device::kSuperGroupThreads, to.stream, to.job, to.in_layout, to.layout, tables,
                  strata, in, to.out, to.out_size);
  });
}

}  // namespace nf::cuda
