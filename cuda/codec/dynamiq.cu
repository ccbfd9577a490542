// dynamiq on the device (docs/codecs/dynamiq.md), except fold_encode and fold_add.
#include "cuda/codec/dynamiq.h"

#include "codec/dynamiq/dynamiq_draws.h"
#include "codec/dynamiq/dynamiq_lattice.h"
#include "cuda/codec/make_device_codecs.h"
#include "cuda/device/super_group_kernels.cuh"

namespace nf::cuda {
namespace {

using device::DynamiqStrata;
using device::DynamiqTables;
using device::SuperGroupFolded;
using device::SuperGroupJob;
using device::SuperGroupLayout;
using device::SuperGroupMessage;
using device::SuperGroupOp;
using In = SuperGroupMessage<const std::byte>;
using Out = SuperGroupMessage<std::byte>;

template <DataType kType, SuperGroupOp kOp, unsigned kWidth>
__global__ void __launch_bounds__(device::kSuperGroupThreads, 4)
    transform(SuperGroupJob job, SuperGroupLayout layout,
              __grid_constant__ const DynamiqTables tables,
              __grid_constant__ const DynamiqStrata strata, In in, Out out,
              std::uint64_t out_size) {
  job.load_bounds();
  device::transform_super_groups<kType, kOp>(device::DynamiqPolicy<kType, kWidth>(tables, strata),
                                             job, layout, in, out, out_size);
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
    return with_op(op, [&](auto own) { return run_as<own()>(launch, in); });
  }

  Status fold(const SuperGroupLaunch& launch, const SuperGroupFolded& in,
              bool encodes) const override {
    return fold_dynamiq(width(), tables_, strata(launch), launch, in, encodes);
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
