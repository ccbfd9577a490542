#include "cuda/collective/device_feedback.h"

#include <algorithm>

#include "cuda/base/launch.h"

namespace nf::cuda {

std::uint32_t* DeviceFeedback::has_nonfinite() const {
  return reinterpret_cast<std::uint32_t*>(buffer_.data() + 2 * distance_);
}

Status DeviceFeedback::begin(const AllReduceCall& call, cudaStream_t stream) {
  loss_scale_ = call.loss_scale;
  type_ = call.gradients.front().values.type;
  NF_RETURN_IF_ERROR(allocate(call.gradients, stream));
  NF_RETURN_IF_ERROR(
      to_status(cudaMemsetAsync(has_nonfinite(), 0, flag_bytes(), stream), "clearing flags"));
  return add_residuals(parameters_, type_, loss_scale_, stream);
}

// Allocates the memory of a call and finds the residuals of its parameters.
Status DeviceFeedback::allocate(std::span<const Gradient> gradients, cudaStream_t stream) {
  copies_.assign(gradients.begin(), gradients.end());
  parameters_.clear();
  distance_ = 0;
  for (const Gradient& gradient : gradients) {
    if (gradient.values.type != type_) {
      return {ErrorCode::kInvalidArgument,
              "all gradients of a device all-reduce must have the same type"};
    }
    distance_ += aligned(gradient.values.count * sizeof(float));
  }
  NF_RETURN_IF_ERROR(buffer_.reserve(2 * distance_ + aligned(flag_bytes()), stream));
  std::byte* at = buffer_.data();
  for (Gradient& gradient : copies_) {
    const std::size_t count = gradient.values.count;
    const Expected<float*> residual = memory_.use(gradient.parameter, count, stream);
    if (!residual) return residual.status();
    auto* values = reinterpret_cast<float*>(at);
    parameters_.push_back({.gradient = gradient.values.data,
                           .values = values,
                           .residual = *residual,
                           .is_added = has_nonfinite() + 1 + parameters_.size(),
                           .count = count});
    gradient.values = Values(values, count, DataType::kFloat32);
    at += aligned(count * sizeof(float));
  }
  return {};
}

Status DeviceFeedback::reserve(const DevicePlan& plan, cudaStream_t stream) {
  return residual_pieces_.reserve(std::max<std::size_t>(plan.pieces().size_bytes(), 1), stream);
}

Status DeviceFeedback::set_plan(const DevicePlan& plan, cudaStream_t stream) {
  pieces_ = plan.pieces().data();
  return offset_pieces(plan.pieces(), distance_, residual_pieces_.as<DevicePiece>(), stream);
}

Status DeviceFeedback::store_residual(const DeviceCodec& codec, const Batch& tile,
                                      const ConstDeviceMessage& message,
                                      cudaStream_t stream) const {
  if (tile.blocks == 0) return {};
  Batch lost = tile;
  lost.pieces = residual_pieces_.as<DevicePiece>() + (tile.pieces - pieces_);
  NF_RETURN_IF_ERROR(codec.decode(lost, message, stream));
  return subtract_decoded(tile, distance_ / sizeof(float), distance_, 1 / loss_scale_, stream);
}

Status DeviceFeedback::clear_residuals(const GradientRange& range, cudaStream_t stream) const {
  const auto offset_of = [&](std::size_t gradient) {
    if (gradient == parameters_.size()) return distance_;
    const auto* values = reinterpret_cast<const std::byte*>(parameters_[gradient].values);
    return static_cast<std::size_t>(values - buffer_.data());
  };
  const std::size_t first = offset_of(range.first);
  const std::size_t size = offset_of(range.first + range.count) - first;
  return to_status(cudaMemsetAsync(buffer_.data() + distance_ + first, 0, size, stream),
                   "clearing new residuals");
}

Status DeviceFeedback::end_shard(const GradientRange& own, cudaStream_t stream) {
  const std::span<const FeedbackParameter> all = parameters_;
  NF_RETURN_IF_ERROR(
      store_results(all.subspan(own.first, own.count), type_, has_nonfinite(), stream));
  NF_RETURN_IF_ERROR(find_nonfinite_residuals(all, distance_, has_nonfinite(), stream));
  return store_residuals(all, distance_, has_nonfinite(), stream);
}

Status DeviceFeedback::end(cudaStream_t stream) {
  NF_RETURN_IF_ERROR(store_results(parameters_, type_, has_nonfinite(), stream));
  return store_residuals(parameters_, distance_, has_nonfinite(), stream);
}

}  // namespace nf::cuda
