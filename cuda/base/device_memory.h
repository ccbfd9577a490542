// Device memory from whoever owns the device: CUDA's own pool, or the caching allocator of a
// framework, so that what is free in one is not lost to the other.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "neuron_fabric/status.h"

namespace nf::cuda {

class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;
  // Null where there is none left. Aligned to kDeviceAlignment; ready for work on `stream`.
  virtual void* allocate(std::size_t size, cudaStream_t stream) = 0;
  // Once what is on `stream` now is done with it. Nobody waits.
  virtual void free(void* memory, cudaStream_t stream) = 0;
};

// The current device's memory pool.
DeviceAllocator& pool_allocator();

inline DeviceAllocator& or_pool(DeviceAllocator* allocator) {
  return allocator != nullptr ? *allocator : pool_allocator();
}

// What allocations are aligned to, and so are tables and messages within one.
inline constexpr std::size_t kDeviceAlignment = 256;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

// Memory that grows and never shrinks. It is given back in the order of the stream that it was last
// reserved for: that stream lives until reset(), and work of other streams on the memory comes
// before what is on it then.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(DeviceAllocator& allocator) : allocator_(allocator) {}
  ~DeviceBuffer() { reset(); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  // For work on `stream`. What was in it is lost where it has to grow. Fails with kOutOfMemory.
  Status reserve(std::size_t size, cudaStream_t stream);
  void reset();

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }
  std::size_t size() const { return size_; }

 private:
  DeviceAllocator& allocator_;
  void* memory_ = nullptr;
  std::size_t size_ = 0;
  cudaStream_t stream_ = nullptr;  // that it was last reserved for
};

}  // namespace nf::cuda
