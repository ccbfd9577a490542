#include "cuda/base/device_memory.h"

#include <string>

namespace nf::cuda {
namespace {

class PoolAllocator final : public DeviceAllocator {
 public:
  void* allocate(std::size_t size, cudaStream_t stream) override {
    void* memory = nullptr;
    if (cudaMallocAsync(&memory, size, stream) == cudaSuccess) return memory;
    static_cast<void>(cudaGetLastError());  // clears the error: it is reported here
    return nullptr;
  }
  // Not cudaFree(), which does not wait for pending work if the memory is from a pool.
  void free(void* memory, cudaStream_t stream) override {
    if (cudaFreeAsync(memory, stream) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }
};

}  // namespace

DeviceAllocator& pool_allocator() {
  static PoolAllocator pool;
  return pool;
}

Status DeviceBuffer::reserve(std::size_t size, cudaStream_t stream) {
  if (size > size_) {
    reset();
    memory_ = allocator_.allocate(size, stream);
    if (memory_ == nullptr) {
      return {ErrorCode::kOutOfMemory,
              "out of device memory: cannot allocate " + std::to_string(size) + " bytes"};
    }
    size_ = size;
  }
  stream_ = stream;
  return {};
}

void DeviceBuffer::reset() {
  if (memory_ != nullptr) allocator_.free(memory_, stream_);
  memory_ = nullptr;
  size_ = 0;
}

}  // namespace nf::cuda
