// The base class of waterfill and dynamiq on the device: statistics, and the sizes of launches.
#pragma once

#include "cuda/base/launch.h"
#include "cuda/codec/device_codec.h"
#include "cuda/device/super_group_layout.cuh"

namespace nf::cuda {

// The arguments of a launch.
struct SuperGroupLaunch {
  DataType type = DataType::kFloat32;
  std::uint32_t ranks = 1;
  device::SuperGroupJob job;
  unsigned grid = 0;
  cudaStream_t stream = nullptr;
  device::SuperGroupLayout in_layout;  // the same as `layout` unless messages are folded
  device::SuperGroupLayout layout;
  device::SuperGroupMessage<std::byte> out;
  std::uint64_t out_size = 0;
};

// Calls work(std::integral_constant<SuperGroupOp, op>()) and returns its result.
template <typename Work>
auto with_op(device::SuperGroupOp op, Work work) {
  using device::SuperGroupOp;
  switch (op) {
    case SuperGroupOp::kEncode:
      return work(std::integral_constant<SuperGroupOp, SuperGroupOp::kEncode>());
    case SuperGroupOp::kDecode:
      return work(std::integral_constant<SuperGroupOp, SuperGroupOp::kDecode>());
    case SuperGroupOp::kDecodeAdd:
      return work(std::integral_constant<SuperGroupOp, SuperGroupOp::kDecodeAdd>());
    case SuperGroupOp::kDecodeAddEncode: break;
  }
  return work(std::integral_constant<SuperGroupOp, SuperGroupOp::kDecodeAddEncode>());
}

class SuperGroupDevice : public DeviceCodec {
 public:
  Status statistics(const Batch& batch, std::byte* out, std::byte* scratch,
                    cudaStream_t stream) const override;
  Status combine_statistics(const Batch& batch, std::uint32_t ranks, const std::byte* by_rank,
                            std::size_t size, std::byte* combined,
                            cudaStream_t stream) const override;
  Status encode(const Batch& batch, const DeviceMessage& out, cudaStream_t stream) const override;
  Status decode(const Batch& batch, const ConstDeviceMessage& in,
                cudaStream_t stream) const override;
  Status decode_add(const Batch& batch, const ConstDeviceMessage& in,
                    cudaStream_t stream) const override;
  Status decode_add_encode(const Batch& batch, const ConstDeviceMessage& in,
                           const DeviceMessage& out, cudaStream_t stream) const override;
  Status fold_encode(const Batch& batch, std::span<const ConstDeviceMessage> in,
                     const DeviceMessage& out, cudaStream_t stream) const override;
  Status fold_add(const Batch& batch, std::span<const ConstDeviceMessage> in,
                  cudaStream_t stream) const override;

 protected:
  // `width` is the width of all super-groups, or 0 if widths are chosen.
  explicit SuperGroupDevice(unsigned width) : width_(width) {}

  // Launch the codec's kernels.
  virtual Status run(device::SuperGroupOp op, const SuperGroupLaunch& launch,
                     const device::SuperGroupMessage<const std::byte>& in) const = 0;
  // `encodes`: fold_encode, otherwise fold_add.
  virtual Status fold(const SuperGroupLaunch& launch, const device::SuperGroupFolded& in,
                      bool encodes) const = 0;
  // Resident thread blocks of decode() per multiprocessor.
  virtual unsigned decoding_blocks() const { return kResidentBlocks; }

  static constexpr unsigned kResidentBlocks = 4;
  unsigned width() const { return width_; }

 private:
  template <typename Byte>
  device::SuperGroupLayout layout(const DeviceMessageOf<Byte>& message) const {
    return {message.piece_at, message.offsets, width_};
  }
  SuperGroupLaunch start(const Batch& batch, const device::SuperGroupLayout& layout,
                         cudaStream_t stream, unsigned resident = kResidentBlocks) const;
  SuperGroupLaunch start(const Batch& batch, const DeviceMessage& out, cudaStream_t stream) const;
  Status fold_all(SuperGroupLaunch launch, std::span<const ConstDeviceMessage> in,
                  bool encodes) const;

  const unsigned width_;
};

}  // namespace nf::cuda
