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

AllReduceCall RouteCalls::call_of(const BucketWork& work) {
  const TrainingStep& step = work.step();
  return {.step = step.statistics.step,
          .epoch = step.epoch,
          .loss_scale = step.loss_scale.value,
          .loss_scale_version = step.loss_scale.version};
}

void RouteCalls::fill(const BucketWork& work, std::span<const Segment> segments,
                      RouteValues& values) const {
  std::vector<Gradient>& gradients = values.gradients;
  std::vector<std::size_t>& shards = values.shards;
  gradients.clear();
  shards.clear();
  if (!work.scatters()) {
    for (const Segment& segment : segments) gradients.push_back(gradient_of(work, segment.slot));
    return;
  }
  for_each_owner(work.rows(), positions_, [&](std::uint32_t owner) {
    const std::size_t before = gradients.size();
    for (const Segment& segment : segments) {
      if (work.row_of(segment.slot) != owner) continue;
      Gradient& part = gradients.emplace_back(gradient_of(work, segment.slot));
      part.parameter = shard_key(part.parameter, owner);
      part.rows = 0;
    }
    shards.push_back(gradients.size() - before);
  });
}

Gradient RouteCalls::gradient_of(const BucketWork& work, const BucketSlot& slot) const {
  return {.parameter = keys_[slot.parameter],
          .values = work.values(slot.offset, slot.count),
          .rows = binding_.parameters()[slot.parameter].rows};
}

std::vector<RegionShare> shares_of(std::span<const Segment> segments) {
  std::size_t values = 0;
  for (const Segment& segment : segments) values += segment.slot.count;
  std::vector<RegionShare> shares;
  for (const Segment& segment : segments) {
    shares.push_back(
        {segment.region, static_cast<double>(segment.slot.count) / static_cast<double>(values)});
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

void add_dense_traffic(std::span<RegionTraffic> traffic, std::span<const RegionShare> shares,
                       const Traffic& before, const Traffic& after) {
  for (const RegionShare& one : shares) {
    RegionTraffic& region = traffic[one.region];
    region.sent_dense_bytes += static_cast<double>(after.total() - before.total()) * one.share;
    region.sent_dense_up_bytes += static_cast<double>(after.up() - before.up()) * one.share;
  }
}

void add_seconds(std::span<RegionTraffic> traffic, std::span<const RegionShare> shares,
                 double seconds) {
  for (const RegionShare& one : shares) traffic[one.region].seconds += seconds * one.share;
}

std::vector<RegionShare> add_exchange(std::span<RegionTraffic> traffic,
                                      std::span<const JoinedSegments> parts) {
  const auto bytes_of = [](const JoinedSegments& part) {
    return static_cast<double>(part.after.total() - part.before.total());
  };
  double total = 0;
  for (const JoinedSegments& part : parts) total += bytes_of(part);
  std::vector<RegionShare> all;
  for (const JoinedSegments& part : parts) {
    const std::vector<RegionShare> shares = shares_of(part.segments);
    const auto add = part.is_dense ? add_dense_traffic : add_traffic;
    add(traffic, shares, part.before, part.after);
    if (total <= 0) continue;
    for (const RegionShare& one : shares) {
      all.push_back({one.region, one.share * bytes_of(part) / total});
    }
  }
  return all;
}

}  // namespace nf
