// Copies of gradients that a sum cannot take as they lie: those that do not start at a multiple of
// 16 bytes, as in a bucket behind a parameter of odd size, and those of 16 bits where sums grow in
// the values' place, which is done in FP32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include "cuda/base/device_memory.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

class ValueCopies {
 public:
  explicit ValueCopies(DeviceAllocator& allocator) : room_(allocator) {}
  ValueCopies(const ValueCopies&) = delete;
  ValueCopies& operator=(const ValueCopies&) = delete;

  // For these gradients. Fails where they are of several types, and with kOutOfMemory.
  Status make(std::span<const Gradient> gradients, bool in_fp32, cudaStream_t stream);

  // Whether these are the gradients that it was made for, at the same addresses.
  bool are_of(std::span<const Gradient> gradients) const;
  // The same gradients with the copies' addresses and type, where they have copies.
  std::span<const Gradient> taken() const { return taken_; }

  Status copy_in(cudaStream_t stream) const;
  Status copy_out(cudaStream_t stream) const;

  // Device memory held.
  std::size_t memory() const { return room_.size(); }

 private:
  struct Copy {
    Values values;
    Values* copy = nullptr;  // in taken_
  };

  std::vector<Gradient> gradients_;
  std::vector<Gradient> taken_;
  std::vector<Copy> copies_;
  DeviceBuffer room_;
};

}  // namespace nf::cuda
