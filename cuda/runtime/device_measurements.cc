// The measurements of DevicePath.
#include <algorithm>
#include <utility>

#include "cuda/base/launch.h"
#include "cuda/runtime/device_path.h"

namespace nf::cuda {
namespace {

constexpr std::size_t kMaxSampleBytes = Sampler::kMaxValues * sizeof(float);

}  // namespace

Expected<StepReading*> DevicePath::begin_reading(const TrainingStep& step) {
  std::unique_ptr<StepReading> reading;
  {
    const std::lock_guard lock(mutex_);
    if (!free_readings_.empty()) {
      reading = std::move(free_readings_.back());
      free_readings_.pop_back();
    }
  }
  if (reading == nullptr) reading = std::make_unique<StepReading>(allocator_);
  const auto regions = static_cast<std::uint32_t>(step.traffic.size());
  NF_RETURN_IF_ERROR(reading->begin(regions, kMaxSampleBytes, context_.stream));
  const std::lock_guard lock(mutex_);
  return (readings_[&step] = std::move(reading)).get();
}

Status DevicePath::sample(BucketWork& work, StepReading& reading) {
  return route_errors_.for_each_sample(work, [&](std::uint32_t parameter, Values values) {
    return reading.add_sample(parameter, values, channel_->stream);
  });
}

Status DevicePath::end_reading() {
  NF_RETURN_IF_ERROR(reading_->end(context_.stream));
  std::size_t held = memories_.size() + norms_.size();
  for (const auto& channel : channels_) {
    held += channel->gathered.size() + channel->routes.memory();
  }
  const std::lock_guard lock(mutex_);
  held_bytes_ = std::max(held_bytes_, held);
  return {};
}

Status DevicePath::collect(TrainingStep& step) {
  NF_RETURN_IF_ERROR(to_status(cudaSetDevice(device_), "setting the device"));
  std::unique_ptr<StepReading> reading;
  {
    const std::lock_guard lock(mutex_);
    const auto found = readings_.find(&step);
    if (found == readings_.end()) return {};
    reading = std::move(found->second);
    readings_.erase(found);
  }
  const Status waited = wait(context_, step.statistics.step, [&] { return reading->query(); });
  if (waited.ok()) add_measurements(*reading, step);
  // Keep it even if the wait failed: freeing pinned memory waits for the device, which may wait for
  // a peer in an operation of the engine that has not been aborted yet.
  const std::lock_guard lock(mutex_);
  free_readings_.push_back(std::move(reading));
  return waited;
}

void DevicePath::add_measurements(const StepReading& reading, TrainingStep& step) {
  if (step.is_monitored) {
    const std::span<const DeviceNorm> norms = reading.read_norms();
    for (std::size_t region = 0; region < norms.size(); ++region) {
      step.statistics.regions[region].energy += norms[region].energy;
      step.statistics.regions[region].non_finite += norms[region].non_finite;
    }
    for (const DeviceSample& sample : reading.samples()) {
      const std::uint32_t region = binding_.region_of(sample.parameter);
      const RouteSample measured = route_errors_.measure(step.statistics.step, sample.parameter,
                                                         step.wanted[region], sample.values);
      step.local.samples[region].error_energy += measured.error_energy;
      step.local.samples[region].energy += measured.energy;
    }
  }
  const std::span<const BucketEvents> buckets = reading.buckets();
  for (std::size_t i = 0; i < buckets.size() && i < step.local.buckets.size(); ++i) {
    step.local.buckets[i] = {.ready = buckets[i].ready.seconds_since(buckets.front().ready),
                             .done = buckets[i].done.seconds_since(buckets.front().ready)};
  }
  for (const CollectiveTimes& times : reading.collectives()) {
    add_seconds(step.traffic, times.shares, times.end.seconds_since(times.begin));
  }
}

std::size_t DevicePath::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_bytes_;
}

}  // namespace nf::cuda
