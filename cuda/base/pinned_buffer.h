// Pinned host memory.
#pragma once

#include <cstddef>

#include "neuron_fabric/status.h"

namespace nf::cuda {

// Copies between pinned memory and a device are asynchronous. Grows and never shrinks.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  Status reserve(std::size_t size);
  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  std::size_t size() const { return size_; }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace nf::cuda
