// Device memory from CUDA's memory pool, or from the caching allocator of a framework, so that both
// share the free memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "neuron_fabric/status.h"

namespace nf::cuda {

class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;
  // Returns null if out of memory. Aligned to kDeviceAlignment; ready for work on `stream`.
  virtual void* allocate(std::size_t size, cudaStream_t stream) = 0;
  // Frees the memory after the work that is on `stream` now. Does not wait.
  virtual void free(void* memory, cudaStream_t stream) = 0;
};

// The current device's memory pool.
DeviceAllocator& pool_allocator();

inline DeviceAllocator& or_pool(DeviceAllocator* allocator) {
  return allocator != nullptr ? *allocator : pool_allocator();
}

// The alignment of allocations, and of tables and messages in an allocation.
inline constexpr std::size_t kDeviceAlignment = 256;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

// Memory that grows and never shrinks. It is freed in the order of the stream that it was last
// reserved for: that stream must live until reset(), and must by then be ordered after the work of
// other streams on the memory.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(DeviceAllocator& allocator) : allocator_(allocator) {}
  ~DeviceBuffer() { reset(); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  // For work on `stream`. If the buffer grows, its contents are lost. Fails with kOutOfMemory.
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
  cudaStream_t stream_ = nullptr;  // of the last reserve()
};

}  // namespace nf::cuda
