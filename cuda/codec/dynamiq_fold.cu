// fold_encode and fold_add of dynamiq on the device.
#include "cuda/codec/dynamiq.h"
#include "cuda/device/super_group_kernels.cuh"

namespace nf::cuda {
namespace {

using device::DynamiqStrata;
using device::DynamiqTables;
using device::SuperGroupFolded;
using device::SuperGroupJob;
using device::SuperGroupLayout;
using Out = device::SuperGroupMessage<std::byte>;

template <DataType kType, unsigned kWidth, bool kEncodes>
__global__ void __launch_bounds__(device::kSuperGroupThreads, 4)
    fold(SuperGroupJob job, SuperGroupLayout in_layout, SuperGroupLayout layout,
         __grid_constant__ const DynamiqTables tables, __grid_constant__ const DynamiqStrata strata,
         __grid_constant__ const SuperGroupFolded in, Out out, std::uint64_t out_size) {
  job.load_bounds();
  device::fold_super_groups<kType, kEncodes>(device::DynamiqPolicy<kType, kWidth>(tables, strata),
                                             job, in_layout, layout, in, out, out_size);
}

template <bool kEncodes>
Status launch_fold(unsigned width, const DynamiqTables& tables, const DynamiqStrata& strata,
                   const SuperGroupLaunch& to, const SuperGroupFolded& in) {
  return with_type(to.type, [&](auto type) {
    return launch(kEncodes ? "dynamiq fold_encode" : "dynamiq fold_add",
                  width == 4 ? fold<type(), 4, kEncodes> : fold<type(), 0, kEncodes>, to.grid,
                  device::kSuperGroupThreads, to.stream, to.job, to.in_layout, to.layout, tables,
                  strata, in, to.out, to.out_size);
  });
}

}  // namespace

Status fold_dynamiq(unsigned width, const DynamiqTables& tables, const DynamiqStrata& strata,
                    const SuperGroupLaunch& to, const SuperGroupFolded& in, bool encodes) {
  return encodes ? launch_fold<true>(width, tables, strata, to, in)
                 : launch_fold<false>(width, tables, strata, to, in);
}

}  // namespace nf::cuda
