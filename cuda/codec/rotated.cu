// rotated on the device (docs/codecs/rotated.md), except fold_encode and fold_add.
#include "cuda/codec/rotated.h"

#include "cuda/codec/make_device_codecs.h"
#include "cuda/device/rotated.cuh"
#include "cuda/device/super_group_kernels.cuh"

namespace nf::cuda {
namespace {

using device::SuperGroupFolded;
using device::SuperGroupJob;
using device::SuperGroupLayout;
using device::SuperGroupMessage;
using device::SuperGroupOp;
using In = SuperGroupMessage<const std::byte>;
using Out = SuperGroupMessage<std::byte>;

// Resident thread blocks per multiprocessor.
constexpr unsigned resident_blocks(SuperGroupOp op) {
  return op == SuperGroupOp::kDecodeAddEncode ? 3 : 4;
}

template <DataType kType, SuperGroupOp kOp, unsigned kWidth>
__global__ void __launch_bounds__(device::kSuperGroupThreads, resident_blocks(kOp))
    transform(SuperGroupJob job, SuperGroupLayout layout, In in, Out out, std::uint64_t out_size) {
  job.load_bounds();
  device::transform_super_groups<kType, kOp>(
      device::RotatedPolicy<kType, kWidth>(device::load_rotated_tables()), job, layout, in, out,
      out_size);
}

class RotatedDevice final : public SuperGroupDevice {
 public:
  explicit RotatedDevice(unsigned width) : SuperGroupDevice(width) {}

  // Messages of a fixed width have no statistics.
  Status statistics(const Batch& batch, std::byte* out, std::byte* scratch,
                    cudaStream_t stream) const override {
    return width() != 0 ? Status() : SuperGroupDevice::statistics(batch, out, scratch, stream);
  }
  Status combine_statistics(const Batch& batch, std::uint32_t ranks, const std::byte* by_rank,
                            std::size_t size, std::byte* combined,
                            cudaStream_t stream) const override {
    if (width() != 0) return {};
    return SuperGroupDevice::combine_statistics(batch, ranks, by_rank, size, combined, stream);
  }

 protected:
  Status run(SuperGroupOp op, const SuperGroupLaunch& launch, const In& in) const override {
    return with_op(op, [&](auto own) { return run_as<own()>(launch, in); });
  }

  Status fold(const SuperGroupLaunch& launch, const SuperGroupFolded& in,
              bool encodes) const override {
    return fold_rotated(width(), launch, in, encodes);
  }

 private:
  template <SuperGroupOp kOp>
  Status run_as(const SuperGroupLaunch& to, const In& in) const {
    return with_type(to.type, [&](auto type) {
      return launch("rotated", width() == 4 ? transform<type(), kOp, 4> : transform<type(), kOp, 0>,
                    to.grid, device::kSuperGroupThreads, to.stream, to.job, to.layout, in, to.out,
                    to.out_size);
    });
  }
};

}  // namespace

DeviceCodecResult make_device_rotated(const Codec& codec) {
  const Expected<double> width =
      codec.spec().number("width", 0, kRotatedMinWidth, kRotatedMaxWidth);
  if (!width) return width.status();
  return std::unique_ptr<DeviceCodec>(
      std::make_unique<RotatedDevice>(static_cast<unsigned>(*width)));
}

}  // namespace nf::cuda
