// What one step shows of itself on a device, on its way to the host: norms, samples and times. It
// is asked for on the stream, bucket by bucket, and read once the stream has come to its end.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/base/device_memory.h"
#include "cuda/runtime/bucket_passes.h"
#include "neuron_fabric/data_type.h"

namespace nf::cuda {

// A CUDA event that is given back. It measures time.
class Event {
 public:
  Event() = default;
  ~Event();
  Event(Event&& other) noexcept : event_(other.event_) { other.event_ = nullptr; }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event& operator=(Event&&) = delete;

  Status record(cudaStream_t stream);
  // What comes on `stream` from now on waits for it. One that was never recorded holds up nothing.
  Status block(cudaStream_t stream) const;
  cudaEvent_t get() const { return event_; }
  // Precondition: both have been recorded, and have come to pass.
  double seconds_since(const Event& earlier) const;

 private:
  cudaEvent_t event_ = nullptr;
};

// Host memory that a device can copy to without anybody waiting. Grows and never shrinks.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  Status reserve(std::size_t size);
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

// One piece of a parameter, as it was before the sum.
struct DeviceSample {
  std::uint32_t parameter = 0;
  ConstValues values;
};

// One of a bucket's low-bit collectives.
struct SumTimes {
  Event begin;
  Event end;
  struct Share {
    std::uint32_t region = 0;
    double part = 0;
  };
  std::vector<Share> shares;
};

struct BucketEvents {
  Event ready;
  Event done;
};

// Made once and used for step after step: begin() forgets the one before.
class StepReading {
 public:
  explicit StepReading(DeviceAllocator& allocator) : norms_(allocator) {}

  // For a step with so many regions and at most one sample of `sample_bytes` a region.
  Status begin(std::uint32_t regions, std::size_t sample_bytes, cudaStream_t stream);
  // The next bucket's events.
  BucketEvents& add_bucket();
  SumTimes& add_sum();
  Status add_sample(std::uint32_t parameter, ConstValues values, cudaStream_t stream);
  // Where kernels add the regions' norms.
  DeviceNorm* norms() const { return norms_.as<DeviceNorm>(); }
  // Nothing more will be asked for.
  Status end(cudaStream_t stream);

  // cudaErrorNotReady until the stream has come to the end.
  cudaError_t ask() const { return cudaEventQuery(end_.get()); }

  // Precondition, for all of these: it has.
  std::span<const DeviceNorm> read_norms() const;
  std::span<const DeviceSample> samples() const { return samples_; }
  std::span<const BucketEvents> buckets() const { return {buckets_.data(), used_buckets_}; }
  std::span<const SumTimes> sums() const { return {sums_.data(), used_sums_}; }

 private:
  std::uint32_t regions_ = 0;
  DeviceBuffer norms_;
  PinnedBuffer pinned_norms_;
  PinnedBuffer pinned_samples_;
  std::size_t sample_bytes_ = 0;
  std::vector<DeviceSample> samples_;
  std::vector<BucketEvents> buckets_;
  std::size_t used_buckets_ = 0;
  std::vector<SumTimes> sums_;
  std::size_t used_sums_ = 0;
  Event end_;
};

}  // namespace nf::cuda
