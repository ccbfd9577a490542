// Error feedback of one sum in device memory. A call works on copies of all its gradients, in FP32,
// with what was lost the last time added to them. Every message that the rank makes of its values
// is decoded again, in a second room of the same layout, where the loss is left; it becomes what is
// kept once all sums are there and finite. The host learns nothing of that.
//
//   room   values of all parameters | what is lost of them | whether a result is not finite, and by
//          parameter whether what was lost is added
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/collective/device_plan.h"
#include "cuda/collective/feedback.h"
#include "cuda/collective/residual_memory.h"

namespace nf::cuda {

class DeviceFeedback {
 public:
  // Borrows both. Sums on other streams may share the memory.
  DeviceFeedback(ResidualMemory& memory, DeviceAllocator& allocator)
      : memory_(memory), room_(allocator), moved_pieces_(allocator) {}

  // A call comes: makes the copies. Fails where the loss scale is none, gradients are of several
  // types or not of the size of what is kept of them, and with kOutOfMemory.
  Status begin(const AllReduceCall& call, cudaStream_t stream);
  // The copies, which are to be summed in their place: they lie where those of the last call did,
  // unless it has_moved().
  std::span<const Gradient> taken() const { return taken_; }
  bool has_moved() const { return has_moved_; }

  // The plan that the copies are summed by: reserves room for it, and follows it once it is made.
  Status reserve(const DevicePlan& plan, cudaStream_t stream);
  Status follow(const DevicePlan& plan, cudaStream_t stream);
  // A message has been made of a tile's values, and of nothing else.
  Status lose(const DeviceCodec& codec, const Batch& tile, const ConstDeviceMessage& message,
              cudaStream_t stream) const;

  // The sums are there: gives them to the gradients, and keeps what was lost where all are finite.
  Status end(cudaStream_t stream);
  // Behind every begin(), however the call went.
  Status used(cudaStream_t stream) { return memory_.used(stream); }

  void forget(std::uint64_t parameter) { memory_.drop(parameter); }
  // Device memory held, but for what is kept.
  std::size_t memory() const { return room_.size() + moved_pieces_.size(); }

 private:
  Status place(std::span<const Gradient> gradients, cudaStream_t stream);
  // Flags: one for the call, and behind it one for every parameter.
  std::uint32_t* is_unsound() const;
  std::size_t flag_bytes() const { return (1 + taken_.size()) * sizeof(std::uint32_t); }

  ResidualMemory& memory_;
  DeviceBuffer room_;
  DeviceBuffer moved_pieces_;  // those of the plan, of what is lost

  // Of the call under way.
  std::vector<Gradient> taken_;
  std::vector<FeedbackParameter> parameters_;
  DataType type_ = DataType::kFloat32;
  float loss_scale_ = 1;
  std::size_t distance_ = 0;             // bytes from values to what is lost of them
  const DevicePiece* pieces_ = nullptr;  // of the plan
  bool has_moved_ = false;
};

}  // namespace nf::cuda
