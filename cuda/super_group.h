// What the device forms of waterfill and dynamiq share: statistics, and how a launch is cut.
#pragma once

#include "cuda/device/super_group.cuh"
#include "cuda/device_codec.h"
#include "cuda/launch.h"

namespace nf::cuda {

class SuperGroupDevice : public DeviceCodec {
 public:
  Status statistics(const Batch& batch, std::byte* out, cudaStream_t stream) const override;
  Status combine_statistics(const Batch& batch, std::uint32_t ranks, const std::byte* by_rank,
                            std::size_t size, std::byte* combined,
                            cudaStream_t stream) const override;

 protected:
  // `width` is that of all super-groups, or 0 where places have them.
  explicit SuperGroupDevice(unsigned width) : width_(width) {}

  // Enough warps to fill the device several times over, or fewer with up to 32 super-groups each.
  static device::SuperGroupJob job(const Batch& batch);
  static unsigned grid(const device::SuperGroupJob& job);

  template <typename Byte>
  device::SuperGroupLayout layout(const DeviceMessageOf<Byte>& message) const {
    return {message.piece_at, message.places, width_};
  }
  template <typename Byte>
  static device::SuperGroupMessage<Byte> wire(const DeviceMessageOf<Byte>& message) {
    return {message.bytes, message.origin.encoder,
            static_cast<float>(message.origin.contributions)};
  }
  // What remains to be done for a message without any super-group.
  static Status clear(const DeviceMessage& message, cudaStream_t stream);

  unsigned width() const { return width_; }

 private:
  const unsigned width_;
};

}  // namespace nf::cuda
