// The statistics stage of one part of an exchange (collective/statistics_stage.h) on streams: every
// rank combines its part of all ranks' statistics and sends the result to all other ranks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/codec/device_codec.h"
#include "cuda/collective/device_plan.h"
#include "cuda/transport/stream_transport.h"

namespace nf::cuda {

class DeviceStatistics {
 public:
  DeviceStatistics(std::uint32_t rank, std::uint32_t ranks, DeviceAllocator& allocator)
      : rank_(rank), ranks_(ranks), buffer_(allocator) {}

  // Allocates memory for a plan. Fails with kOutOfMemory.
  Status reserve(const DevicePlan& plan, const DeviceCodec& codec, cudaStream_t stream);

  // The steps of a call, in this order; the transfers of each list are exchanged before the next
  // step. At the end, the plan has its combined statistics. All are no-ops if the codec has none.
  Status compute(const DevicePlan& plan, const CallDraws& draws, const DeviceCodec& codec,
                 cudaStream_t stream);
  void add_transfers(const DevicePlan& plan, StreamTransfers& transfers);
  Status combine(const DevicePlan& plan, const DeviceCodec& codec, cudaStream_t stream);
  void add_combined_transfers(const DevicePlan& plan, StreamTransfers& transfers);

  std::uint64_t bytes_sent() const { return bytes_sent_; }
  // Device memory in bytes.
  std::size_t memory() const { return buffer_.size(); }

 private:
  // The buffer contains the statistics of this rank's values, then those of its part from all
  // ranks, then scratch memory.
  static std::size_t all_at(const DevicePlan& plan) { return aligned(plan.statistics_size()); }
  std::size_t scratch_at(const DevicePlan& plan) const {
    return all_at(plan) + aligned(ranks_ * plan.part(rank_).size);
  }

  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  DeviceBuffer buffer_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace nf::cuda
