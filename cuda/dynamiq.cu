// dynamiq on the device (docs/codecs/dynamiq.md).
#include "cuda/device/dynamiq.cuh"

#include "codec/dynamiq/dynamiq_draws.h"
#include "codec/dynamiq/dynamiq_lattice.h"
#include "cuda/make_device_codecs.h"
#include "cuda/super_group.h"

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
using device::SuperGroupJob;
using device::SuperGroupLayout;
using device::SuperGroupMessage;
using In = SuperGroupMessage<const std::byte>;
using Out = SuperGroupMessage<std::byte>;

constexpr unsigned kScaleBytes = device::kDynamiqScaleBytes;

enum class Op { kEncode, kDecode, kDecodeAdd, kDecodeAddEncode };

// Where widths differ, so that a warp has one at a time, a super-group takes all its lanes.
template <DataType kType, unsigned kWidth>
constexpr int kRunOf = kType == DataType::kFloat32 || kWidth == 0 ? 4 : 8;

__device__ __forceinline__ float unit_of(const std::byte* message, std::uint32_t at) {
  return bfloat16_to_float(*reinterpret_cast<const std::uint16_t*>(message + at));
}

// The scales of the two halves of a group, or of the first one alone. They lie at even addresses:
// messages and their parts are multiples of four bytes, and the units before them take two each.
__device__ __forceinline__ unsigned scales_of(const std::byte* at, bool has_second) {
  if (has_second) return *reinterpret_cast<const std::uint16_t*>(at);
  return std::to_integer<unsigned>(*at);
}

// Writes what a lane is in charge of: the scale of its half, if that holds `held` values of which
// the lane's first one is the first.
template <int kRun>
__device__ __forceinline__ void put_scale(const Lane<kRun>& lane, unsigned scale, int held,
                                          std::byte* scales) {
  const int half = static_cast<int>(lane.part) * 16 - static_cast<int>(lane.first);
  if (lane.part < 2 && held > half) scales[lane.part] = static_cast<std::byte>(scale);
}

// What there is to know of one super-group, in shared memory: a lane works it out, a team uses it.
struct alignas(16) Facts {
  DynamiqKeys keys;  // of the outgoing message

  float mean = 0;  // of one rank
  float unit = 0;  // of the incoming message
  std::uint32_t scales = 0;
  std::uint32_t codes = 0;

  std::uint32_t width = 0;
  std::uint32_t units = 0;
  std::uint32_t out_unit = 0;
};

template <DataType kType, Op kOp, unsigned kWidth>
__global__ void __launch_bounds__(device::kSuperGroupThreads, 4)
    run(SuperGroupJob job, SuperGroupLayout layout, __grid_constant__ const DynamiqTables tables,
        __grid_constant__ const DynamiqStrata strata, In in, Out out, std::uint64_t out_size) {
  constexpr bool kReadsValues = kOp != Op::kDecode;
  constexpr bool kDecodes = kOp != Op::kEncode;
  constexpr bool kEncodes = kOp == Op::kEncode || kOp == Op::kDecodeAddEncode;
  constexpr int kRun = kRunOf<kType, kWidth>;
  __shared__ Facts facts_of_all[device::kSuperGroupThreads / device::kWarp][device::kWarp];
  Facts* const facts = facts_of_all[threadIdx.x / device::kWarp];
  const Lane<kRun> lane;
  job.find_bounds();
  const DynamiqLookups lookups(tables, strata.slope);

  device::for_each_segment<Lane<kRun>::kTeams>(job, [&](const Segment& segment) {
    const std::uint32_t own = threadIdx.x % device::kWarp;
    if (own < segment.count) {
      const SuperGroupPlace place = device::place_of<kScaleBytes>(layout, segment, own);
      Facts mine;
      if constexpr (kEncodes) {
        mine.keys = DynamiqKeys(job.step_key, segment.piece.parameter, out.encoder, strata,
                                segment.piece.first / kSuperGroup + segment.first + own);
      }
      mine.mean = segment.mean(own);
      if constexpr (kDecodes) mine.unit = unit_of(in.bytes, place.units);
      mine.scales = place.scales;
      mine.codes = place.codes;
      mine.width = place.width;
      mine.units = place.units;
      facts[own] = mine;
    }
    __syncwarp();

    // Super-group i of the team's.
    const std::uint32_t base = lane.team * segment.each;
    const auto step = [&]<bool kWhole>(std::uint32_t i) {
      const Facts& known = facts[base + i];
      // Values that lie from this lane's first one on.
      const int held = kWhole ? static_cast<int>(kGroup)
                              : static_cast<int>(segment.held(base + i) - lane.element);
      const bool has_group = kWhole || held > -static_cast<int>(lane.first);
      const unsigned width = kWidth != 0 ? kWidth : known.width;
      const std::uint32_t scales_at = known.scales + 2 * lane.group;
      const std::uint32_t codes_at =
          known.codes + lane.group * static_cast<unsigned>(group_bytes(width));

      std::byte* const at = segment.values<kType>(base + i, lane.element);
      RunWords<kType, kRun> words;
      if constexpr (kReadsValues) words.template load<kWhole>(at, held);
      Runs<kRun> values;
      if constexpr (kDecodes) {
        unsigned scale_bytes = 0;
        device::PackedCodes<kRun, kWidth> packed;
        if (has_group) {
          scale_bytes = scales_of(in.bytes + scales_at, held > 16 - static_cast<int>(lane.first));
          packed.load(in.bytes + codes_at, width, lane.first);
        }
        if constexpr (kReadsValues) words.widen_to(values);
        device::with_width<kWidth>(width, [&](auto bits) {
          device::decode_runs<kRun, bits(), kReadsValues>(
              lookups, known.unit, in.contributions * known.mean, scale_bytes,
              packed.lower(width, lane.first), values);
        });
        if constexpr (!kEncodes) {
          words.narrow_from(values, kReadsValues || known.unit != known.unit);
          words.template store<kWhole>(at, held);
        }
      } else {
        words.widen_to(values);
      }
      if constexpr (kEncodes) {
        device::centre<kWhole>(out.contributions * known.mean, held, values);
        const device::DynamiqScales scales = device::with_width<kWidth>(width, [&](auto bits) {
          return device::encode_runs<kRun, bits()>(lookups, strata, known.keys, lane, values,
                                                   has_group, out.bytes + codes_at);
        });
        put_scale(lane, scales.byte, held, out.bytes + scales_at);
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
      if (own < segment.count) {
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
         __grid_constant__ const Folded in, Out out, std::uint64_t out_size) {
  constexpr int kRun = kRunOf<kType, kWidth>;
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

    // Super-group i of the team's.
    const std::uint32_t base = lane.team * segment.each;
    const auto step = [&]<bool kWhole>(std::uint32_t i) {
      const FoldFacts& known = facts[base + i];
      const int held = kWhole ? static_cast<int>(kGroup)
                              : static_cast<int>(segment.held(base + i) - lane.element);
      const bool has_group = kWhole || held > -static_cast<int>(lane.first);
      RunWords<kType, kRun> words;
      words.template load<kWhole>(segment.values<kType>(base + i, lane.element), held);
      Runs<kRun> values;
      words.widen_to(values);

      const SuperGroupPlace from = known.from;
      const unsigned in_width = kWidth != 0 ? kWidth : from.width;
      const std::uint32_t scales_at = from.scales + 2 * lane.group;
      const std::uint32_t codes_at =
          from.codes + lane.group * static_cast<unsigned>(group_bytes(in_width));
#pragma unroll 1
      for (std::uint32_t m = 0; m < in.count; ++m) {
        const In& message = in.messages[m];
        device::PackedCodes<kRun, kWidth> packed;
        unsigned scale_bytes = 0;
        float unit = 0;
        if (has_group) {
          unit = unit_of(message.bytes, from.units);
          scale_bytes =
              scales_of(message.bytes + scales_at, held > 16 - static_cast<int>(lane.first));
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
          out.bytes + to.codes + lane.group * static_cast<unsigned>(group_bytes(width));
      const device::DynamiqScales scales = device::with_width<kWidth>(width, [&](auto bits) {
        return device::encode_runs<kRun, bits()>(lookups, strata, known.keys, lane, values,
                                                 has_group, codes);
      });
      put_scale(lane, scales.byte, held, out.bytes + to.scales + 2 * lane.group);
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

DynamiqTables tables_of(bool uniform) {
  DynamiqTables tables;
  const DynamiqLattice& four = dynamiq_lattice(4, uniform);
  const DynamiqLattice& eight = dynamiq_lattice(8, uniform);
  static_assert(DynamiqTables::kFew == DynamiqLattice::kFew);
  std::copy(four.code_value.begin(), four.code_value.end(), tables.value4);
  std::copy(four.low.begin(), four.low.end(), tables.low4);
  std::copy(four.gap.begin(), four.gap.end(), tables.gap4);
  std::copy(eight.coarse.begin(), eight.coarse.end(), tables.coarse8);
  std::copy(eight.fine.begin(), eight.fine.end(), tables.fine8);
  tables.is_uniform = uniform;
  return tables;
}

class DynamiqDevice final : public SuperGroupDevice {
 public:
  DynamiqDevice(unsigned width, bool uniform, bool correlated)
      : SuperGroupDevice(width), tables_(tables_of(uniform)), correlated_(correlated) {}

  Status encode(const Batch& batch, const DeviceMessage& out, cudaStream_t stream) const override {
    if (batch.blocks == 0) return clear(out, stream);
    return start<Op::kEncode>("dynamiq encode", batch, layout(out), {}, wire(out), out.size,
                              stream);
  }

  Status decode(const Batch& batch, const ConstDeviceMessage& in,
                cudaStream_t stream) const override {
    return start<Op::kDecode>("dynamiq decode", batch, layout(in), wire(in), {}, 0, stream);
  }

  Status decode_add(const Batch& batch, const ConstDeviceMessage& in,
                    cudaStream_t stream) const override {
    return start<Op::kDecodeAdd>("dynamiq decode_add", batch, layout(in), wire(in), {}, 0, stream);
  }

  Status decode_add_encode(const Batch& batch, const ConstDeviceMessage& in,
                           const DeviceMessage& out, cudaStream_t stream) const override {
    if (batch.blocks == 0) return clear(out, stream);
    return start<Op::kDecodeAddEncode>("dynamiq decode_add_encode", batch, layout(out), wire(in),
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
      return launch("dynamiq fold_encode", width() == 4 ? fold<type(), 4> : fold<type(), 0>,
                    grid(work), device::kSuperGroupThreads, stream, work, in_layout, layout(out),
                    tables_, strata(batch, out.origin.encoder), folded, wire(out), out.size);
    });
  }

 private:
  DynamiqStrata strata(const Batch& batch, std::uint32_t encoder) const {
    const DynamiqDraws draws(Slice{.ranks = batch.ranks}, encoder, correlated_);
    DynamiqStrata strata{.count = draws.strata, .slope = draws.slope};
    static_assert(DynamiqStrata::kFactors == DynamiqDraws::kFactors);
    for (std::size_t k = 0; k < DynamiqDraws::kFactors; ++k) {
      strata.shifts[k] = draws.factors[k] * draws.index % draws.strata;
    }
    return strata;
  }

  template <Op kOp>
  Status start(const char* name, const Batch& batch, const SuperGroupLayout& layout, const In& in,
               const Out& out, std::uint64_t out_size, cudaStream_t stream) const {
    const SuperGroupJob work = job(batch);
    return with_type(batch.type, [&](auto type) {
      return launch(name, width() == 4 ? run<type(), kOp, 4> : run<type(), kOp, 0>, grid(work),
                    device::kSuperGroupThreads, stream, work, layout, tables_,
                    strata(batch, out.encoder), in, out, out_size);
    });
  }

  const DynamiqTables tables_;
  const bool correlated_;
};

}  // namespace

DeviceCodecResult make_device_dynamiq(const Codec& codec) {
  const Expected<double> width = codec.spec().number("width", 0, 2, 8);
  if (!width) return width.status();
  const Expected<bool> uniform = codec.spec().flag("uniform");
  if (!uniform) return uniform.status();
  const Expected<bool> independent = codec.spec().flag("independent");
  if (!independent) return independent.status();
  return std::unique_ptr<DeviceCodec>(
      std::make_unique<DynamiqDevice>(static_cast<unsigned>(*width), *uniform, !*independent));
}

}  // namespace nf::cuda
