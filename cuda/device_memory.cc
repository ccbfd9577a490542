#include "cuda/device_memory.h"

#include <string>

namespace nf::cuda {
namespace {

class PoolAllocator final : public DeviceAllocator {
 public:
  void* allocate(std::size_t size, cudaStream_t stream) override {
    void* memory = nullptr;
    if (cudaMallocAsync(&memory, size, stream) == cudaSuccess) return memory;
    static_cast<void>(cudaGetLastError());  // it is told here, not at the next launch
    return nullptr;
  }
  // Waits for all work on the device, which may still use it.
  void free(void* memory) override { static_cast<void>(cudaFree(memory)); }
};

}  // namespace

DeviceAllocator& pool_allocator() {
  static PoolAllocator pool;
  return pool;
}

Status DeviceBuffer::reserve(std::size_t size, cudaStream_t stream) {
  if (size <= size_) return {};
  reset();
  memory_ = allocator_.allocate(size, stream);
  if (memory_ == nullptr) {
    return {ErrorCode::kOutOfMemory,
            "no " + std::to_string(size) + " bytes of device memory are left"};
  }
  size_ = size;
  return {};
}

void DeviceBuffer::reset() {
  if (memory_ != nullptr) allocator_.free(memory_);
  memory_ = nullptr;
  size_ = 0;
}

}  // namespace nf::cuda
