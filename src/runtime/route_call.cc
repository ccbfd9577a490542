#include "runtime/route_call.h"

#include "collective/shard_borders.h"
#include "neuron_fabric/reduce_scatter.h"

namespace nf {

RouteCalls::RouteCalls(const Binding& binding, std::uint32_t positions)
    : binding_(binding), positions_(positions) {
  for (const ModelParameter& parameter : binding.parameters()) {
    keys_.push_back(parameter_key(parameter.name));
  }
}

AllReduceCall RouteCalls::make(const BucketWork& work, std::span<const Segment> segments) {
  gradients_.clear();
  shards_.clear();
  if (!work.scatters()) {
    for (const Segment& segment : segments) gradients_.push_back(gradient_of(work, segment.slot));
  } else {
    for_each_owner(work.rows(), positions_, [&](std::uint32_t owner) {
      const std::size_t before = gradients_.size();
      for (const Segment& segment : segments) {
        if (work.row_of(segment.slot) != owner) continue;
        Gradient& part = gradients_.emplace_back(gradient_of(work, segment.slot));
        part.parameter = shard_key(part.parameter, owner);
        part.rows = 0;
      }
      shards_.push_back(gradients_.size() - before);
    });
  }
  const TrainingStep& step = work.step();
  return {.step = step.statistics.step,
          .epoch = step.epoch,
          .gradients = gradients_,
          .loss_scale = step.loss_scale.value,
          .loss_scale_version = step.loss_scale.version};
}

Gradient RouteCalls::gradient_of(const BucketWork& work, const BucketSlot& slot) const {
  return {.parameter = keys_[slot.parameter],
          .values = work.values(slot.offset, slot.count),
          .rows = binding_.parameters()[slot.parameter].rows};
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
