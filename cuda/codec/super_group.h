// What the device forms of waterfill and dynamiq share: statistics, and how a launch is cut.
#pragma once

#include "cuda/base/launch.h"
#include "cuda/codec/device_codec.h"
#include "cuda/device/super_group_layout.cuh"

namespace nf::cuda {

// What a launch is about, on the host's side.
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

class SuperGroupDevice : public DeviceCodec {
 public:
  Status statistics(const Batch& batch, std::byte* out, std::byte* room,
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

 protected:
  // `width` is that of all super-groups, or 0 where places have them.
  explicit SuperGroupDevice(unsigned width) : width_(width) {}

  // What a codec brings.
  virtual Status run(device::SuperGroupOp op, const SuperGroupLaunch& launch,
                     const device::SuperGroupMessage<const std::byte>& in) const = 0;
  virtual Status fold(const SuperGroupLaunch& launch, const device::SuperGroupFolded& in) const = 0;
  // Thread blocks that a multiprocessor holds of decode().
  virtual unsigned decoding_blocks() const { return kResidentBlocks; }

  static constexpr unsigned kResidentBlocks = 4;
  unsigned width() const { return width_; }

 private:
  template <typename Byte>
  device::SuperGroupLayout layout(const DeviceMessageOf<Byte>& message) const {
    return {message.piece_at, message.places, width_};
  }
  SuperGroupLaunch start(const Batch& batch, const device::SuperGroupLayout& layout,
                         cudaStream_t stream, unsigned resident = kResidentBlocks) const;
  SuperGroupLaunch start(const Batch& batch, const DeviceMessage& out, cudaStream_t stream) const;

  const unsigned width_;
};

}  // namespace nf::cuda
