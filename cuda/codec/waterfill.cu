// waterfill on the device (docs/codecs/waterfill.md), except fold_encode and fold_add.
#include "cuda/codec/waterfill.h"

#include "cuda/codec/make_device_codecs.h"
#include "cuda/device/super_group_kernels.cuh"
#include "cuda/device/waterfill.cuh"

namespace nf::cuda {
namespace {

using device::SuperGroupFolded;
using device::SuperGroupJob;
using device::SuperGroupLayout;
using device::SuperGroupMessage;
using device::SuperGroupOp;
using In = SuperGroupMessage<const std::byte>;
using Out = SuperGroupMessage<std::byte>;

// Resident thread blocks per multiprocessor. Decoding codes of one width takes few registers.
constexpr unsigned resident_blocks(SuperGroupOp op, unsigned width) {
  return op == SuperGroupOp::kDecode && width == 4 ? 5 : 4;
}

template <DataType kType, SuperGroupOp kOp, unsigned kWidth>
__global__ void __launch_bounds__(device::kSuperGroupThreads, resident_blocks(kOp, kWidth))
    transform(SuperGroupJob job, SuperGroupLayout layout, In in, Out out, std::uint64_t out_size) {
  job.load_bounds();
  device::transform_super_groups<kType, kOp>(device::WaterfillPolicy<kType, kWidth>(), job, layout,
                                             in, out, out_size);
}

class WaterfillDevice final : public SuperGroupDevice {
 public:
  explicit WaterfillDevice(unsigned width) : SuperGroupDevice(width) {}

 protected:
  Status run(SuperGroupOp op, const SuperGroupLaunch& launch, const In& in) const override {
    return with_op(op, [&](auto own) { return run_as<own()>(launch, in); });
  }

  Status fold(const SuperGroupLaunch& launch, const SuperGroupFolded& in,
              bool encodes) const override {
    return fold_waterfill(width(), launch, in, encodes);
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
      codec.spec().number("width", 0, kWaterfillMinWidth, kWaterfillMaxWidth);
  if (!width) return width.status();
  return std::unique_ptr<DeviceCodec>(
      std::make_unique<WaterfillDevice>(static_cast<unsigned>(*width)));
}

}  // namespace nf::cuda
