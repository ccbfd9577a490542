#include "runtime/plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace nf {

std::size_t RoutedSegments::values() const {
  std::size_t values = 0;
  for (const Segment& segment : segments) values += segment.slot.count;
  return values;
}

Status check_slots(const Binding& binding, const Bucket& bucket) {
  const std::size_t parameters = binding.parameters().size();
  const std::size_t room = bucket.values.count;
  for (const BucketSlot& slot : bucket.slots) {
    if (slot.parameter >= parameters) {
      return {ErrorCode::kInvalidArgument,
              fmt::format("a slot has parameter {}, but the model has {} parameters",
                          slot.parameter, parameters)};
    }
    if (slot.offset > room || slot.count > room - slot.offset) {
      return {ErrorCode::kInvalidArgument,
              fmt::format("a slot has {} values from value {} on, but the bucket has {}",
                          slot.count, slot.offset, room)};
    }
    const ModelParameter& parameter = binding.parameters()[slot.parameter];
    if (slot.count > parameter.count) {
      return {ErrorCode::kInvalidArgument,
              fmt::format("a slot has {} values of parameter {}, which has {}", slot.count,
                          parameter.name, parameter.count)};
    }
  }
  return {};
}

std::vector<BucketSlot> in_parameter_order(std::span<const BucketSlot> slots) {
  std::vector<BucketSlot> ordered(slots.begin(), slots.end());
  std::ranges::sort(ordered, [](const BucketSlot& a, const BucketSlot& b) {
    return a.parameter != b.parameter ? a.parameter > b.parameter : a.offset < b.offset;
  });
  return ordered;
}

Plan make_plan(const Binding& binding, std::span<const BucketSlot> slots,
               std::span<const std::string> routes) {
  Plan plan;
  for (const BucketSlot& slot : in_parameter_order(slots)) {
    if (slot.count == 0) continue;
    const std::uint32_t region = binding.region_of(slot.parameter);
    const std::string& route = routes[region];
    const Segment segment{.slot = slot, .region = region};
    if (route == kDenseRoute || binding.is_small(slot.parameter)) {
      plan.dense.push_back(segment);
      continue;
    }
    auto it = std::ranges::find(plan.low_bit, route, &RoutedSegments::route);
    if (it == plan.low_bit.end()) {
      plan.low_bit.push_back({.route = route, .segments = {}});
      it = std::prev(plan.low_bit.end());
    }
    it->segments.push_back(segment);
  }
  return plan;
}

std::vector<DenseRun> runs_of(std::span<const Segment> segments) {
  std::vector<DenseRun> runs;
  for (const Segment& segment : segments) {
    const BucketSlot& slot = segment.slot;
    if (!runs.empty() && runs.back().offset + runs.back().count == slot.offset) {
      runs.back().count += slot.count;
    } else {
      runs.push_back({.offset = slot.offset, .count = slot.count});
    }
  }
  return runs;
}

}  // namespace nf
