// dynamiq on the device (docs/codecs/dynamiq.md): all but what folds messages.
#include "cuda/codec/dynamiq.h"

#include "codec/dynamiq/dynamiq_draws.h"
#include "codec/dynamiq/dynamiq_lattice.h"
#include "cuda/codec/make_device_codecs.h"

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
using device::SuperGroupOp;
using In = SuperGroupMessage<const std::byte>;
using Out = SuperGroupMessage<std::byte>;

constexpr unsigned kScaleBytes = device::kDynamiqScaleBytes;

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

template <DataType kType, SuperGroupOp kOp, unsigned kWidth>
__global__ void __launch_bounds__(device::kSuperGroupThreads, 4)
    transform(SuperGroupJob job, SuperGroupLayout layout,
              __grid_constant__ const DynamiqTables tables,
              __grid_constant__ const DynamiqStrata strata, In in, Out out,
              std::uint64_t out_size) {
  constexpr bool kReadsValues = kOp != SuperGroupOp::kDecode;
  constexpr bool kDecodes = kOp != SuperGroupOp::kEncode;
  constexpr bool kEncodes = kOp == SuperGroupOp::kEncode || kOp == SuperGroupOp::kDecodeAddEncode;
  constexpr int kRun = device::kDynamiqRun<kType, kWidth>;
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
      if constexpr (kDecodes) mine.unit = device::unit_of(in.bytes, place.units);
      mine.scales = place.scales;
      mine.codes = place.codes;
      mine.width = place.width;
      mine.units = place.units;
      facts[own] = mine;
    }
    __syncwarp();

    // The team's super-group of a round.
    const auto step = [&]<bool kWhole>(std::uint32_t round) {
      const std::uint32_t i = Lane<kRun>::kTeams * round + lane.team;
      const Facts& known = facts[i];
      // Values that lie from this lane's first one on.
      const int held =
          kWhole ? static_cast<int>(kPack) : static_cast<int>(segment.held(i) - lane.element);
      const bool has_group = kWhole || held > -static_cast<int>(lane.first);
      const unsigned width = kWidth != 0 ? kWidth : known.width;
      const std::uint32_t scales_at = known.scales + 2 * lane.group;
      const std::uint32_t codes_at =
          known.codes + lane.group * static_cast<unsigned>(pack_bytes(width));

      std::byte* const at = segment.values<kType>(i, lane.element);
      RunWords<kType, kRun> words;
      if constexpr (kReadsValues) words.template load<kWhole>(at, held);
      Runs<kRun> values;
      if constexpr (kDecodes) {
        unsigned scale_bytes = 0;
        device::PackedCodes<kRun, kWidth> packed = {};
        if (has_group) {
          scale_bytes = device::dynamiq_scales(in.bytes + scales_at,
                                               held > 16 - static_cast<int>(lane.first));
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
        device::put_dynamiq_scale(lane, scales.byte, held, out.bytes + scales_at);
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
    return fold_dynamiq(width(), tables_, strata(launch), launch, in);
  }

 private:
  DynamiqStrata strata(const SuperGroupLaunch& launch) const {
    const DynamiqDraws draws(Slice{.ranks = launch.ranks}, launch.out.encoder, correlated_);
    DynamiqStrata strata{.count = draws.strata, .slope = draws.slope};
    static_assert(DynamiqStrata::kFactors == DynamiqDraws::kFactors);
    for (std::size_t k = 0; k < DynamiqDraws::kFactors; ++k) {
      strata.shifts[k] = draws.factors[k] * draws.index % draws.strata;
    }
    return strata;
  }

  template <SuperGroupOp kOp>
  Status run_as(const SuperGroupLaunch& to, const In& in) const {
    return with_type(to.type, [&](auto type) {
      return launch("dynamiq", width() == 4 ? transform<type(), kOp, 4> : transform<type(), kOp, 0>,
                    to.grid, device::kSuperGroupThreads, to.stream, to.job, to.layout, tables_,
                    strata(to), in, to.out, to.out_size);
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
