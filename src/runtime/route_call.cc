#include "runtime/route_call.h"

namespace nf {

RouteCalls::RouteCalls(const Binding& binding) : binding_(binding) {
  for (const ModelParameter& parameter : binding.parameters()) {
    keys_.push_back(parameter_key(parameter.name));
  }
}

AllReduceCall RouteCalls::make(const BucketWork& work, std::span<const Segment> segments) {
  gradients_.clear();
  for (const Segment& segment : segments) {
    const BucketSlot& slot = segment.slot;
    gradients_.push_back({.parameter = keys_[slot.parameter],
                          .values = work.values(slot.offset, slot.count),
                          .rows = binding_.parameters()[slot.parameter].rows});
  }
  const TrainingStep& step = work.step();
  return {.step = step.statistics.step,
          .epoch = step.epoch,
          .gradients = gradients_,
          .loss_scale = step.loss_scale.value,
          .loss_scale_version = step.loss_scale.version};
}

std::vector<RegionShare> shares_of(const RoutedSegments& routed) {
  const auto values = static_cast<double>(routed.values());
  std::vector<RegionShare> shares;
  for (const Segment& segment : routed.segments) {
    shares.push_back({segment.region, static_cast<double>(segment.slot.count) / values});
  }
  return shares;
}

void add_traffic(std::span<RegionTraffic> traffic, std::span<const RegionShare> shares,
                 const Traffic& before, const Traffic& after) {
  for (const RegionShare& one : shares) {
    RegionTraffic& region = traffic[one.region];
    region.low_bit_bytes += static_cast<double>(after.total() - before.total()) * one.share;
    region.low_bit_up_bytes += static_cast<double>(after.up() - before.up()) * one.share;
  }
}

void add_seconds(std::span<RegionTraffic> traffic, std::span<const RegionShare> shares,
                 double seconds) {
  for (const RegionShare& one : shares) traffic[one.region].seconds += seconds * one.share;
}

}  // namespace nf
