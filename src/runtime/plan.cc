#include "runtime/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace nf {

std::size_t RoutedSegments::values() const {
  std::size_t values = 0;
  for (const Segment& segment : segments) values += segment.slot.count;
  return values;
}

std::string Plan::describe(const Binding& binding) const {
  std::string text;
  const auto add = [&](const Segment& segment, std::string_view route) {
    fmt::format_to(std::back_inserter(text), "{:>10} {:>10}  {}  {}  {}\n", segment.slot.offset,
                   segment.slot.count, binding.parameters()[segment.slot.parameter].name,
                   binding.profile().regions[segment.region].name, route);
  };
  for (const Segment& segment : dense) add(segment, kDenseRoute);
  for (const RoutedSegments& routed : low_bit) {
    for (const Segment& segment : routed.segments) add(segment, routed.route);
  }
  return text;
}

Plan make_plan(const Binding& binding, std::span<const BucketSlot> slots,
               std::span<const std::string> routes) {
  Plan plan;
  for (const BucketSlot& slot : slots) {
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
