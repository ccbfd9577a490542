// The measurements of one step on a device, on their way to the host: norms, samples and times.
// They are enqueued on streams, bucket by bucket, and read when the streams have reached the end of
// the step.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/base/device_memory.h"
#include "cuda/base/event.h"
#include "cuda/base/pinned_buffer.h"
#include "cuda/runtime/bucket_passes.h"
#include "neuron_fabric/data_type.h"
#include "runtime/route_call.h"

namespace nf::cuda {

// A sample of one parameter, from before the all-reduce.
struct DeviceSample {
  std::uint32_t parameter = 0;
  ConstValues values;
};

// The times of one exchange, or of a route with a collective of its own.
struct CollectiveTimes {
  Event begin;
  Event end;
  std::vector<RegionShare> shares;
};

struct BucketEvents {
  Event ready;
  Event done;
};

// Reusable: begin() discards the previous step.
class StepReading {
 public:
  explicit StepReading(DeviceAllocator& allocator) : norms_(allocator) {}

  // At most one sample of `sample_bytes` per region.
  Status begin(std::uint32_t regions, std::size_t sample_bytes, cudaStream_t stream);
  // The events of the next bucket.
  BucketEvents& add_bucket();
  CollectiveTimes& add_collective();
  Status add_sample(std::uint32_t parameter, ConstValues values, cudaStream_t stream);
  // By region; kernels add to them.
  DeviceNorm* norms() const { return norms_.as<DeviceNorm>(); }
  // All measurements are on their streams.
  Status end(cudaStream_t stream);

  // cudaErrorNotReady until all measurements are complete.
  cudaError_t query() const { return cudaEventQuery(end_.get()); }

  // Precondition of all of these: query() returned cudaSuccess.
  std::span<const DeviceNorm> read_norms() const;
  std::span<const DeviceSample> samples() const { return samples_; }
  std::span<const BucketEvents> buckets() const { return {buckets_.data(), used_buckets_}; }
  std::span<const CollectiveTimes> collectives() const {
    return {collectives_.data(), used_collectives_};
  }

 private:
  std::uint32_t regions_ = 0;
  DeviceBuffer norms_;
  PinnedBuffer pinned_norms_;
  PinnedBuffer pinned_samples_;
  std::size_t sample_bytes_ = 0;
  std::vector<DeviceSample> samples_;
  std::vector<BucketEvents> buckets_;
  std::size_t used_buckets_ = 0;
  std::vector<CollectiveTimes> collectives_;
  std::size_t used_collectives_ = 0;
  Event end_;
};

}  // namespace nf::cuda
