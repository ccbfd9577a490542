#include "cuda/device_layout.h"

#include <algorithm>

#include "cuda/launch.h"

namespace nf::cuda {
namespace {

constexpr std::size_t kValueAlignment = 16;  // of DevicePiece

bool is_same(const Gradient& a, const Gradient& b) {
  return a.parameter == b.parameter && a.values.data == b.values.data &&
         a.values.count == b.values.count && a.values.type == b.values.type;
}

bool is_askew(const Gradient& gradient) {
  return reinterpret_cast<std::uintptr_t>(gradient.values.data) % kValueAlignment != 0;
}

std::size_t bytes_of(const Gradient& gradient) {
  return gradient.values.count * size_of(gradient.values.type);
}

}  // namespace

Expected<std::unique_ptr<DeviceLayout>> DeviceLayout::create(const Request& request,
                                                             DeviceAllocator& allocator,
                                                             cudaStream_t stream) {
  for (const Gradient& gradient : request.gradients) {
    if (gradient.values.type != request.gradients.front().values.type) {
      return Status(ErrorCode::kInvalidArgument, "gradients of one sum on a device have one type");
    }
  }
  std::unique_ptr<DeviceLayout> layout(new DeviceLayout(allocator));
  layout->gradients_.assign(request.gradients.begin(), request.gradients.end());
  std::vector<Gradient> own = layout->gradients_;
  if (Status status = layout->redirect(own, stream); !status.ok()) return status;
  Expected<std::unique_ptr<DevicePlan>> plan =
      DevicePlan::create({.codec = request.codec,
                          .order = request.order,
                          .gradients = own,
                          .chunks = request.schedule.chunks,
                          .tile_bytes = request.tile_bytes,
                          .contributions = request.contributions},
                         allocator, stream);
  if (!plan) return plan.status();
  layout->plan_ = std::move(*plan);
  layout->place_messages(request.schedule);
  return layout;
}

bool DeviceLayout::is_of(std::span<const Gradient> gradients) const {
  return std::equal(gradients.begin(), gradients.end(), gradients_.begin(), gradients_.end(),
                    is_same);
}

Status DeviceLayout::redirect(std::vector<Gradient>& own, cudaStream_t stream) {
  std::size_t size = 0;
  for (const Gradient& gradient : own) {
    if (is_askew(gradient)) size += aligned(bytes_of(gradient));
  }
  if (size == 0) return {};
  NF_RETURN_IF_ERROR(room_.reserve(size, stream));
  std::byte* at = room_.data();
  for (Gradient& gradient : own) {
    if (!is_askew(gradient)) continue;
    copies_.push_back({gradient.values.data, at, bytes_of(gradient)});
    gradient.values.data = at;
    at += aligned(bytes_of(gradient));
  }
  return {};
}

void DeviceLayout::place_messages(const Schedule& schedule) {
  const std::uint32_t tiles = plan_->tiles_per_chunk();
  const auto slot = [&](std::uint32_t chunk, std::uint32_t contributions) {
    MessageSlot made{.at = message_bytes_};
    for (std::uint32_t tile = 0; tile < tiles; ++tile) {
      made.stride = std::max(made.stride, aligned(plan_->message_size(chunk, tile, contributions)));
    }
    message_bytes_ += made.stride * tiles;
    return made;
  };
  partial_.resize(schedule.chunks);
  incoming_.resize(schedule.chunks);
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::kReduceSend) {
      partial_[step.chunk] = slot(step.chunk, step.contributions);
    } else if (step.kind == StepKind::kReduceReceive) {
      incoming_[step.chunk].push_back(slot(step.chunk, step.contributions));
    }
  }
  for (std::uint32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
    finished_.push_back(slot(chunk, schedule.ranks));
  }
  statistics_bytes_ =
      aligned(plan_->statistics_size()) + schedule.ranks * plan_->part(schedule.rank).size;
}

Status DeviceLayout::copy_in(cudaStream_t stream) const {
  for (const Copy& one : copies_) {
    NF_RETURN_IF_ERROR(copy_on_device(one.copy, one.values, one.size, stream));
  }
  return {};
}

Status DeviceLayout::copy_out(cudaStream_t stream) const {
  for (const Copy& one : copies_) {
    NF_RETURN_IF_ERROR(copy_on_device(one.values, one.copy, one.size, stream));
  }
  return {};
}

}  // namespace nf::cuda
