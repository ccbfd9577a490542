// The statistics stage (collective/statistics_stage.h) on streams: every rank combines its part of
// all ranks' statistics and sends the result to all other ranks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/codec/device_codec.h"
#include "cuda/collective/device_plan.h"
#include "cuda/transport/stream_transport.h"

namespace nf::cuda {

class DeviceStatistics {
 public:
  // Borrows the transport.
  DeviceStatistics(StreamTransport& transport, DeviceAllocator& allocator)
      : transport_(transport), buffer_(allocator) {}

  // Allocates memory for a plan. Fails with kOutOfMemory.
  Status reserve(const DevicePlan& plan, const DeviceCodec& codec, cudaStream_t stream);
  // Fills in the combined statistics of the plan. No-op if the codec has no statistics.
  Status exchange(const DevicePlan& plan, const CallDraws& draws, const DeviceCodec& codec,
                  cudaStream_t stream);

  std::uint64_t bytes_sent() const { return bytes_sent_; }
  // Device memory in bytes.
  std::size_t memory() const { return buffer_.size(); }

 private:
  // The buffer contains the statistics of this rank's values, then those of its part from all
  // ranks, then scratch memory.
  static std::size_t all_at(const DevicePlan& plan) { return aligned(plan.statistics_size()); }
  std::size_t scratch_at(const DevicePlan& plan) const {
    return all_at(plan) + aligned(transport_.ranks() * plan.part(transport_.rank()).size);
  }

  StreamTransport& transport_;
  DeviceBuffer buffer_;
  std::uint64_t bytes_sent_ = 0;
  std::vector<StreamTransfer> sends_;
  std::vector<StreamTransfer> receives_;
};

}  // namespace nf::cuda
