#include "runtime/plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace nf {

Status check_slots(const Binding& binding, const Bucket& bucket, std::uint32_t rows) {
  const std::size_t parameters = binding.parameters().size();
  const std::size_t room = bucket.values.count;
  if (room % rows != 0) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("a reduce-scatter over {} ranks has {} values, which are not {} equal rows",
                        rows, room, rows)};
  }
  const std::size_t row_size = room / rows;
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
    if (slot.count > 0 && slot.offset % row_size + slot.count > row_size) {
      return {ErrorCode::kInvalidArgument,
              fmt::format("a slot has {} values from value {} on, which are in two rows of {}",
                          slot.count, slot.offset, row_size)};
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

DenseRuns runs_of(std::span<const Segment> segments, std::size_t row_size, std::uint32_t rows) {
  DenseRuns found;
  std::vector<std::size_t> filled(rows, 0);
  std::vector<std::size_t> last(rows, 0);  // 1 + the index of the row's last run
  for (const Segment& segment : segments) {
    const BucketSlot& slot = segment.slot;
    const auto row = static_cast<std::uint32_t>(rows == 1 ? 0 : slot.offset / row_size);
    DenseRun* before = last[row] == 0 ? nullptr : &found.runs[last[row] - 1];
    if (before != nullptr && before->offset + before->count == slot.offset) {
      before->count += slot.count;
    } else {
      found.runs.push_back(
          {.offset = slot.offset, .count = slot.count, .row = row, .at = filled[row]});
      last[row] = found.runs.size();
    }
    filled[row] += slot.count;
  }
  found.row_size = std::ranges::max(filled);
  return found;
}

}  // namespace nf
