// fold_encode and fold_add of rotated on the device.
#include "cuda/codec/rotated.h"
#include "cuda/device/rotated.cuh"
#include "cuda/device/super_group_kernels.cuh"

namespace nf::cuda {
namespace {

using device::SuperGroupFolded;
using device::SuperGroupJob;
using device::SuperGroupLayout;
using Out = device::SuperGroupMessage<std::byte>;

template <DataType kType, unsigned kWidth, bool kEncodes>
__global__ void __launch_bounds__(device::kSuperGroupThreads, 3)
    fold(SuperGroupJob job, SuperGroupLayout in_layout, SuperGroupLayout layout,
         __grid_constant__ const SuperGroupFolded in, Out out, std::uint64_t out_size) {
  job.load_bounds();
  device::fold_super_groups<kType, kEncodes>(
      device::RotatedPolicy<kType, kWidth>(device::load_rotated_tables()), job, in_layout, layout,
      in, out, out_size);
}

template <bool kEncodes>
Status launch_fold(unsigned width, const SuperGroupLaunch& to, const SuperGroupFolded& in) {
  return with_type(to.type, [&](auto type) {
    return launch(kEncodes ? "rotated fold_encode" : "rotated fold_add",
                  width == 4 ? fold<type(), 4, kEncodes> : fold<type(), 0, kEncodes>, to.grid,
                  device::kSuperGroupThreads, to.stream, to.job, to.in_layout, to.layout, in,
                  to.out, to.out_size);
  });
}

}  // namespace

Status fold_rotated(unsigned width, const SuperGroupLaunch& to, const SuperGroupFolded& in,
                    bool encodes) {
  return encodes ? launch_fold<true>(width, to, in) : launch_fold<false>(width, to, in);
}

}  // namespace nf::cuda
