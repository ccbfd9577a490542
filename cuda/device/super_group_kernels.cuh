// The kernels of waterfill, dynamiq and rotated without the codec's arithmetic, which a policy
// class provides (WaterfillPolicy in waterfill.cuh, DynamiqPolicy in dynamiq.cuh, RotatedPolicy in
// rotated.cuh):
//
// - kRun: values per run of a lane. kWidth: the width of all super-groups, or 0 if widths differ.
//   kScaleBytes: bytes of scales per super-group, or 0. kPadsPacks: SuperGroupFormat::pads_packs.
// - is_sent(width): whether a super-group of this width has any bytes.
// - Params: inputs of one super-group for encoding and decoding, in shared memory. The kernel sets
//   mean, scales, codes, width and units; set_params() sets unit and the fields of the codec.
// - FoldParams: the same for folding. The kernel sets from, to and mean.
// - grid(), in_grid(), out_grid(): constants of the width.
// - source(): the draws of the message to decode. sources(): the same for folded messages in turn.
// - absent_unit(): the unit of a folded message without bytes for the super-group.
// - load_scales(), store_scales(): access to the scales of a lane's pack.
// - decode(), encode(): conversion between the codes and the values of a lane.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/run_codes.cuh"
#include "cuda/device/super_group_layout.cuh"

namespace nf::device {

// This warp's part of a shared array of one record per lane.
template <typename Record>
__device__ __forceinline__ Record* warp_records() {
  __shared__ Record records[kSuperGroupThreads / kWarp][kWarp];
  return records[threadIdx.x / kWarp];
}

// Calls step.operator()<kWhole>(round) for all rounds of a segment. In the first ones the
// super-groups of all teams are whole.
template <unsigned kTeams, typename Step>
__device__ __forceinline__ void for_each_round(const Segment& segment, Step step) {
  const std::uint32_t whole = segment.whole_of(kTeams);
#pragma unroll 1
  for (std::uint32_t i = 0; i < whole; ++i) step.template operator()<true>(i);
#pragma unroll 1
  for (std::uint32_t i = whole; i < segment.each; ++i) step.template operator()<false>(i);
}

// Values of super-group i from this lane's first one on. The number is not used if kWhole.
template <bool kWhole, int kRun>
__device__ __forceinline__ int held_from(const Segment& segment, const Lane<kRun>& lane,
                                         std::uint32_t i) {
  return kWhole ? static_cast<int>(kPack) : static_cast<int>(segment.held(i) - lane.element);
}

// Whether the message contains this lane's pack, in a super-group that is not whole. `held` is the
// result of held_from().
template <typename Policy>
__device__ __forceinline__ bool has_pack(const Lane<Policy::kRun>& lane, int held) {
  return held > -static_cast<int>(Policy::kPadsPacks ? lane.element : lane.first);
}

// Encodes, decodes, or both, one message. Precondition: the bounds of `job` are loaded.
template <DataType kType, SuperGroupOp kOp, typename Policy>
__device__ __forceinline__ void transform_super_groups(const Policy& policy,
                                                       const SuperGroupJob& job,
                                                       const SuperGroupLayout& layout,
                                                       const SuperGroupMessage<const std::byte>& in,
                                                       const SuperGroupMessage<std::byte>& out,
                                                       std::uint64_t out_size) {
  constexpr bool kReadsValues = kOp != SuperGroupOp::kDecode;
  constexpr bool kDecodes = kOp != SuperGroupOp::kEncode;
  constexpr bool kEncodes = kOp == SuperGroupOp::kEncode || kOp == SuperGroupOp::kDecodeAddEncode;
  constexpr int kRun = Policy::kRun;
  constexpr unsigned kWidth = Policy::kWidth;
  constexpr unsigned kScaleBytes = Policy::kScaleBytes;
  constexpr unsigned kTeams = Lane<kRun>::kTeams;
  using Params = typename Policy::Params;
  Params* const all_params = warp_records<Params>();
  const Lane<kRun> lane;

  for_each_segment<kTeams>(job, [&](const Segment& segment) {
    const std::uint32_t own = threadIdx.x % kWarp;
    if (own < segment.count) {
      const cuda::SuperGroupOffsets offsets = offsets_of<kScaleBytes>(layout, segment, own);
      Params mine;
      mine.mean = segment.mean(own);
      policy.template set_params<kDecodes, kEncodes>(job, segment, own, offsets, in, out, mine);
      mine.scales = offsets.scales;
      mine.codes = offsets.codes;
      mine.width = offsets.width;
      mine.units = offsets.units;
      all_params[own] = mine;
    }
    __syncwarp();

    // One round: the team's super-group.
    for_each_round<kTeams>(segment, [&]<bool kWhole>(std::uint32_t round) {
      const std::uint32_t i = kTeams * round + lane.team;
      const Params& params = all_params[i];
      const int held = held_from<kWhole>(segment, lane, i);
      const unsigned width = kWidth != 0 ? kWidth : params.width;
      const bool has_bytes = (kWhole || has_pack<Policy>(lane, held)) && policy.is_sent(width);
      const std::uint32_t scales_at = params.scales + kScaleBytes / kSuperGroupPacks * lane.pack;
      const std::uint32_t codes_at =
          params.codes + lane.pack * static_cast<unsigned>(pack_bytes(width));
      const auto grid = policy.grid(params, width);

      std::byte* const at = segment.values<kType>(i, lane.element);
      RunWords<kType, kRun> words;
      if constexpr (kReadsValues) words.template load<kWhole>(at, held);
      Runs<kRun> values;
      if constexpr (kDecodes) {
        unsigned scales = 0;
        PackedCodes<kRun, kWidth> packed = {};
        if (has_bytes) {
          scales = policy.load_scales(in.bytes + scales_at, lane, held);
          packed.load(in.bytes + codes_at, width, lane.first);
        }
        if constexpr (kReadsValues) words.widen_to(values);
        policy.template decode<kReadsValues>(policy.source(grid, params, lane), lane, width,
                                             params.unit, in.contributions * params.mean, scales,
                                             packed, values);
        if constexpr (!kEncodes) {
          words.narrow_from(values, kReadsValues || params.unit != params.unit);
          words.template store<kWhole>(at, held);
        }
      } else {
        words.widen_to(values);
      }
      if constexpr (kEncodes) {
        centre<kWhole>(out.contributions * params.mean, held, values);
        const auto scales =
            policy.encode(grid, params, lane, width, values, has_bytes, out.bytes + codes_at);
        policy.store_scales(lane, scales, held, has_bytes, out.bytes + scales_at);
        if (lane.index == 0) all_params[i].out_unit = scales.unit;
      }
    });
    __syncwarp();
    if constexpr (kEncodes) {
      if (own < segment.count && policy.is_sent(all_params[own].width)) {
        *reinterpret_cast<std::uint16_t*>(out.bytes + all_params[own].units) =
            static_cast<std::uint16_t>(all_params[own].out_unit);
      }
      clear_padding<kScaleBytes>(layout, segment, out.bytes);
      __syncwarp();
    }
  });
  if constexpr (kEncodes)
    clear_rest<kScaleBytes, Policy::kPadsPacks>(job, layout, out.bytes, out_size);
}

// Adds messages of one layout to the values. kEncodes: encodes the sum, whose widths may differ
// from those of the messages read; otherwise replaces the values by it. Precondition: the bounds of
// `job` are loaded.
template <DataType kType, bool kEncodes, typename Policy>
__device__ __forceinline__ void fold_super_groups(const Policy& policy, const SuperGroupJob& job,
                                                  const SuperGroupLayout& in_layout,
                                                  const SuperGroupLayout& layout,
                                                  const SuperGroupFolded& in,
                                                  const SuperGroupMessage<std::byte>& out,
                                                  std::uint64_t out_size) {
  constexpr int kRun = Policy::kRun;
  constexpr unsigned kWidth = Policy::kWidth;
  constexpr unsigned kScaleBytes = Policy::kScaleBytes;
  constexpr unsigned kTeams = Lane<kRun>::kTeams;
  using Params = typename Policy::FoldParams;
  Params* const all_params = warp_records<Params>();
  const Lane<kRun> lane;

  for_each_segment<kTeams>(job, [&](const Segment& segment) {
    const std::uint32_t own = threadIdx.x % kWarp;
    if (own < segment.count) {
      Params mine;
      mine.from = offsets_of<kScaleBytes>(in_layout, segment, own);
      if constexpr (kEncodes) mine.to = offsets_of<kScaleBytes>(layout, segment, own);
      mine.mean = segment.mean(own);
      policy.set_params(job, segment, own, out, mine);
      all_params[own] = mine;
    }
    __syncwarp();

    // One round: the team's super-group.
    for_each_round<kTeams>(segment, [&]<bool kWhole>(std::uint32_t round) {
      const std::uint32_t i = kTeams * round + lane.team;
      const Params& params = all_params[i];
      const int held = held_from<kWhole>(segment, lane, i);
      const bool is_coded = kWhole || has_pack<Policy>(lane, held);
      std::byte* const at = segment.values<kType>(i, lane.element);
      RunWords<kType, kRun> words;
      words.template load<kWhole>(at, held);
      Runs<kRun> values;
      words.widen_to(values);

      const cuda::SuperGroupOffsets from = params.from;
      const unsigned in_width = kWidth != 0 ? kWidth : from.width;
      const bool is_read = is_coded && policy.is_sent(in_width);
      const std::uint32_t scales_at = from.scales + kScaleBytes / kSuperGroupPacks * lane.pack;
      const std::uint32_t codes_at =
          from.codes + lane.pack * static_cast<unsigned>(pack_bytes(in_width));
      auto sources = policy.sources(policy.in_grid(params, in_width));
#pragma unroll 1
      for (std::uint32_t m = 0; m < in.count; ++m) {
        const SuperGroupMessage<const std::byte>& message = in.messages[m];
        PackedCodes<kRun, kWidth> packed = {};
        unsigned scales = 0;
        float unit = policy.absent_unit(params);
        if (is_read) {
          unit = unit_of(message.bytes, from.units);
          scales = policy.load_scales(message.bytes + scales_at, lane, held);
          packed.load(message.bytes + codes_at, in_width, lane.first);
        }
        policy.template decode<true>(sources.next(job, segment, i, in, m, lane), lane, in_width,
                                     unit, message.contributions * params.mean, scales, packed,
                                     values);
      }

      if constexpr (kEncodes) {
        const cuda::SuperGroupOffsets to = params.to;
        const unsigned width = kWidth != 0 ? kWidth : to.width;
        const bool is_written = is_coded && policy.is_sent(width);
        centre<kWhole>(out.contributions * params.mean, held, values);
        const auto scales = policy.encode(
            policy.out_grid(params, width), params, lane, width, values, is_written,
            out.bytes + to.codes + lane.pack * static_cast<unsigned>(pack_bytes(width)));
        policy.store_scales(lane, scales, held, is_written,
                            out.bytes + to.scales + kScaleBytes / kSuperGroupPacks * lane.pack);
        if (lane.index == 0 && is_written) {
          *reinterpret_cast<std::uint16_t*>(out.bytes + to.units) = scales.unit;
        }
      } else {
        words.narrow_from(values, true);
        words.template store<kWhole>(at, held);
      }
    });
    if constexpr (kEncodes) clear_padding<kScaleBytes>(layout, segment, out.bytes);
    __syncwarp();
  });
  if constexpr (kEncodes)
    clear_rest<kScaleBytes, Policy::kPadsPacks>(job, layout, out.bytes, out_size);
}

}  // namespace nf::device
