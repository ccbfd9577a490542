#include "cuda/collective/device_feedback.h"

#include <algorithm>

#include "collective/checkpoint_checks.h"
#include "cuda/base/launch.h"

namespace nf::cuda {

std::uint32_t* DeviceFeedback::is_unsound() const {
  return reinterpret_cast<std::uint32_t*>(room_.data() + 2 * distance_);
}

Status DeviceFeedback::begin(const AllReduceCall& call, cudaStream_t stream) {
  NF_RETURN_IF_ERROR(check_loss_scale(call.loss_scale));
  loss_scale_ = call.loss_scale;
  type_ = call.gradients.front().values.type;
  NF_RETURN_IF_ERROR(place(call.gradients, stream));
  NF_RETURN_IF_ERROR(
      to_status(cudaMemsetAsync(is_unsound(), 0, flag_bytes(), stream), "clearing of flags"));
  return take_values(parameters_, type_, loss_scale_, stream);
}

// Finds room for everything of the call, and what is kept of its parameters.
Status DeviceFeedback::place(std::span<const Gradient> gradients, cudaStream_t stream) {
  taken_.assign(gradients.begin(), gradients.end());
  parameters_.clear();
  distance_ = 0;
  for (const Gradient& gradient : gradients) {
    if (gradient.values.type != type_) {
      return {ErrorCode::kInvalidArgument, "gradients of one sum on a device have one type"};
    }
    distance_ += aligned(gradient.values.count * sizeof(float));
  }
  const std::byte* before = room_.data();
  NF_RETURN_IF_ERROR(room_.reserve(2 * distance_ + aligned(flag_bytes()), stream));
  has_moved_ = room_.data() != before;
  std::byte* at = room_.data();
  for (Gradient& gradient : taken_) {
    const std::size_t count = gradient.values.count;
    const Expected<float*> kept = memory_.use(gradient.parameter, count, stream);
    if (!kept) return kept.status();
    auto* values = reinterpret_cast<float*>(at);
    parameters_.push_back({.gradient = gradient.values.data,
                           .values = values,
                           .kept = *kept,
                           .is_added = is_unsound() + 1 + parameters_.size(),
                           .count = count});
    gradient.values = Values(values, count, DataType::kFloat32);
    at += aligned(count * sizeof(float));
  }
  return {};
}

Status DeviceFeedback::reserve(const DevicePlan& plan, cudaStream_t stream) {
  return moved_pieces_.reserve(std::max<std::size_t>(plan.pieces().size_bytes(), 1), stream);
}

Status DeviceFeedback::follow(const DevicePlan& plan, cudaStream_t stream) {
  pieces_ = plan.pieces().data();
  return move_pieces(plan.pieces(), distance_, moved_pieces_.as<DevicePiece>(), stream);
}

Status DeviceFeedback::lose(const DeviceCodec& codec, const Batch& tile,
                            const ConstDeviceMessage& message, cudaStream_t stream) const {
  if (tile.blocks == 0) return {};
  Batch lost = tile;
  lost.pieces = moved_pieces_.as<DevicePiece>() + (tile.pieces - pieces_);
  NF_RETURN_IF_ERROR(codec.decode(lost, message, stream));
  return subtract_decoded(tile, distance_ / sizeof(float), distance_, 1 / loss_scale_, stream);
}

Status DeviceFeedback::end(cudaStream_t stream) {
  NF_RETURN_IF_ERROR(give_values(parameters_, type_, is_unsound(), stream));
  return keep_values(parameters_, distance_, is_unsound(), stream);
}

}  // namespace nf::cuda
