// Copies of gradients that an all-reduce cannot use directly: gradients that are not aligned to 16
// bytes, such as those after a parameter of odd size in a bucket, and 16-bit gradients if received
// messages are added to the values, which is done in FP32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include "cuda/base/device_memory.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

// Consecutive gradients of a call.
struct GradientRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

class ValueCopies {
 public:
  explicit ValueCopies(DeviceAllocator& allocator) : memory_(allocator) {}
  ValueCopies(const ValueCopies&) = delete;
  ValueCopies& operator=(const ValueCopies&) = delete;

  // Allocates the copies. Fails if the gradients have different types, and with kOutOfMemory.
  Status make(std::span<const Gradient> gradients, bool in_fp32, cudaStream_t stream);

  // The same gradients at other addresses, whose LayoutKey is the same.
  void move_to(std::span<const Gradient> gradients);
  // The gradients, with the address and type of their copy if they have one.
  std::span<const Gradient> working() const { return working_; }

  Status copy_in(cudaStream_t stream) const;
  Status copy_out(const GradientRange& range, cudaStream_t stream) const;

  // Device memory in bytes.
  std::size_t memory() const { return memory_.size(); }

 private:
  struct Copy {
    Values values;
    std::size_t gradient = 0;  // index
  };

  std::vector<Gradient> working_;
  std::vector<Copy> copies_;  // in the order of the gradients
  DeviceBuffer memory_;
};

}  // namespace nf::cuda
