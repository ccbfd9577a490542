// Error feedback of one route in device memory. A call works on FP32 copies of its gradients, to
// which the residuals are added. Every message that the rank encodes from its values is decoded
// into a second array of the same layout, which then holds the new residuals. If all results are
// finite, they replace the stored residuals. All of this happens without the host.
//
//   buffer   values of all parameters | new residuals | flag: a result is non-finite | flags by
//            parameter: the residual is added
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/collective/device_plan.h"
#include "cuda/collective/feedback.h"
#include "cuda/collective/residual_memory.h"
#include "cuda/collective/value_copies.h"

namespace nf::cuda {

class DeviceFeedback {
 public:
  // Keeps references to both. All-reduces on other streams may share the memory.
  DeviceFeedback(ResidualMemory& memory, DeviceAllocator& allocator)
      : memory_(memory), buffer_(allocator), residual_pieces_(allocator) {}

  // Starts a call: makes the copies. Fails if the gradients have different types, or if a residual
  // has another size; and with kOutOfMemory. Precondition: the loss scale is valid.
  Status begin(const AllReduceCall& call, cudaStream_t stream);
  // The copies, to be reduced in place.
  std::span<const Gradient> copies() const { return copies_; }

  // The plan by which the copies are reduced: allocates memory for its pieces, and copies them once
  // it is made.
  Status reserve(const DevicePlan& plan, cudaStream_t stream);
  Status set_plan(const DevicePlan& plan, cudaStream_t stream);
  // Computes the residual of a tile. Precondition: `message` was encoded from the tile's values
  // only.
  Status store_residual(const DeviceCodec& codec, const Batch& tile,
                        const ConstDeviceMessage& message, cudaStream_t stream) const;

  // Sets the new residuals of gradients that the rank does not encode to zero.
  Status clear_residuals(const GradientRange& range, cudaStream_t stream) const;

  // Ends a call: writes the sums to the gradients, and stores the residuals if all sums are finite.
  Status end(cudaStream_t stream);
  // The same in a reduce-scatter, in which the rank only has the sums of its own gradients. If the
  // sum of another is not finite, a residual of this rank may not be either, so the residuals must
  // be finite, too.
  Status end_shard(const GradientRange& own, cudaStream_t stream);
  // Called after every begin(), also if the call failed.
  Status used(cudaStream_t stream) { return memory_.used(stream); }

  void forget(std::uint64_t parameter) { memory_.drop(parameter); }
  // Device memory in bytes, without the stored residuals.
  std::size_t memory() const { return buffer_.size() + residual_pieces_.size(); }

 private:
  Status allocate(std::span<const Gradient> gradients, cudaStream_t stream);
  // The flags: one for the call, then one per parameter.
  std::uint32_t* has_nonfinite() const;
  std::size_t flag_bytes() const { return (1 + copies_.size()) * sizeof(std::uint32_t); }

  ResidualMemory& memory_;
  DeviceBuffer buffer_;
  DeviceBuffer residual_pieces_;  // the plan's pieces, pointing to the new residuals

  // State of the current call.
  std::vector<Gradient> copies_;
  std::vector<FeedbackParameter> parameters_;
  DataType type_ = DataType::kFloat32;
  float loss_scale_ = 1;
  std::size_t distance_ = 0;             // bytes from values to their new residuals
  const DevicePiece* pieces_ = nullptr;  // of the plan
};

}  // namespace nf::cuda
