#include "cuda/base/pinned_buffer.h"

#include <cuda_runtime_api.h>

#include "cuda/base/launch.h"

namespace nf::cuda {

PinnedBuffer::~PinnedBuffer() {
  if (memory_ != nullptr) static_cast<void>(cudaFreeHost(memory_));
}

Status PinnedBuffer::reserve(std::size_t size) {
  if (size <= size_) return {};
  if (memory_ != nullptr) static_cast<void>(cudaFreeHost(memory_));
  memory_ = nullptr;
  size_ = 0;
  NF_RETURN_IF_ERROR(
      to_status(cudaHostAlloc(&memory_, size, cudaHostAllocPortable), "allocating pinned memory"));
  size_ = size;
  return {};
}

}  // namespace nf::cuda
