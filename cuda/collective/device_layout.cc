#include "cuda/collective/device_layout.h"

#include <algorithm>

namespace nf::cuda {

Expected<std::unique_ptr<DeviceLayout>> DeviceLayout::create(const Request& request,
                                                             DeviceAllocator& allocator,
                                                             cudaStream_t stream) {
  std::unique_ptr<DeviceLayout> layout(new DeviceLayout(allocator));
  NF_RETURN_IF_ERROR(layout->values_.make(request.gradients, request.adds_to_values, stream));
  Expected<std::unique_ptr<DevicePlan>> plan =
      DevicePlan::create({.codec = request.codec,
                          .order = request.order,
                          .gradients = layout->values_.working(),
                          .firsts = request.firsts,
                          .chunks = request.schedule.chunks,
                          .borders = request.borders,
                          .tile_bytes = request.tile_bytes,
                          .contributions = request.contributions},
                         allocator, stream);
  if (!plan) return plan.status();
  layout->plan_ = std::move(*plan);
  layout->key_ = LayoutKey(request.gradients, request.firsts, request.borders);
  layout->allocate_messages(request);
  return layout;
}

void DeviceLayout::allocate_messages(const Request& request) {
  const Schedule& schedule = request.schedule;
  const auto largest = [&](std::uint32_t chunk, std::uint32_t contributions) {
    std::size_t max = 0;
    for (std::uint32_t tile = 0; tile < plan_->chunks().tiles(chunk); ++tile) {
      if (!plan_->has_message(chunk, tile)) continue;
      max = std::max(max, aligned(plan_->message_size(chunk, tile, contributions)));
    }
    return max;
  };
  const auto slot = [&](std::uint32_t chunk, std::uint32_t contributions) {
    const MessageSlot made{.at = message_bytes_, .stride = largest(chunk, contributions)};
    message_bytes_ += made.stride * plan_->chunks().tiles(chunk);
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
  finished_.resize(schedule.chunks);
  for (const auto& [chunk, owner] : request.finished) {
    finished_[chunk] = slot(chunk, schedule.ranks);
  }
  std::size_t max_growing = 0;
  for (std::uint32_t chunk = 0; chunk < schedule.chunks && request.merges_one_by_one; ++chunk) {
    for (const std::uint32_t contributions : request.contributions) {
      max_growing = std::max(max_growing, largest(chunk, contributions));
    }
  }
  for (std::size_t& at : growing_) {
    at = message_bytes_;
    message_bytes_ += max_growing;
  }
}

}  // namespace nf::cuda
