#include "runtime/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/fabric_job.h"

namespace nf {
namespace {

Binding small_binding() {
  Expected<Binding> binding =
      Binding::make(test::short_profile("waterfill:4"), test::small_model());
  EXPECT_TRUE(binding) << to_string(binding.status());
  return *binding;
}

// All parameters, one after the other.
std::vector<BucketSlot> slots_of(const Binding& binding) {
  std::vector<BucketSlot> slots;
  std::size_t offset = 0;
  for (std::uint32_t i = 0; i < binding.parameters().size(); ++i) {
    const std::size_t count = binding.parameters()[i].count;
    slots.push_back({.parameter = i, .offset = offset, .count = count});
    offset += count;
  }
  return slots;
}

TEST(Plan, SplitsABucketAtParameterBoundariesByRoute) {
  const Binding binding = small_binding();
  const Plan plan =
      make_plan(binding, slots_of(binding), std::vector<std::string>{"fp32", "waterfill:4"});
  ASSERT_EQ(plan.low_bit.size(), 1u);
  EXPECT_EQ(plan.low_bit[0].route, "waterfill:4");
  ASSERT_EQ(plan.low_bit[0].segments.size(), 2u);  // the two blocks
  EXPECT_EQ(plan.low_bit[0].segments[0].slot.count, 48u * 64);
  EXPECT_EQ(plan.low_bit[0].segments[1].slot.count, 64u * 64);
  EXPECT_EQ(plan.dense.size(), 3u);  // the head, and the norm, which is small
}

TEST(Plan, CombinesSegmentsOfOneRouteAcrossRegions) {
  const Binding binding = small_binding();
  const Plan plan =
      make_plan(binding, slots_of(binding), std::vector<std::string>{"waterfill:4", "waterfill:4"});
  ASSERT_EQ(plan.low_bit.size(), 1u);
  EXPECT_EQ(plan.low_bit[0].segments.size(), 3u);
}

// DDP changes the order when it rebuilds its first buckets.
TEST(Plan, DoesNotDependOnTheOrderInABucket) {
  const Binding binding = small_binding();
  const auto parameters_of = [&](std::span<const BucketSlot> slots) {
    const Plan plan =
        make_plan(binding, slots, std::vector<std::string>{"waterfill:4", "waterfill:5"});
    std::vector<std::vector<std::uint32_t>> parameters(1);
    for (const Segment& segment : plan.dense) parameters[0].push_back(segment.slot.parameter);
    for (const RoutedSegments& routed : plan.low_bit) {
      auto& own = parameters.emplace_back();
      for (const Segment& segment : routed.segments) own.push_back(segment.slot.parameter);
    }
    return parameters;
  };
  std::vector<BucketSlot> slots = slots_of(binding);
  const auto expected = parameters_of(slots);
  EXPECT_EQ(expected.size(), 3u);
  while (std::ranges::next_permutation(slots, {}, &BucketSlot::offset).found) {
    EXPECT_EQ(parameters_of(slots), expected);
  }
}

TEST(Plan, IsDenseIfEveryRouteIs) {
  const Binding binding = small_binding();
  const Plan plan = make_plan(binding, slots_of(binding), std::vector<std::string>{"fp32", "fp32"});
  EXPECT_TRUE(plan.is_dense());
  EXPECT_EQ(plan.dense.size(), 5u);
}

TEST(Plan, OmitsEmptyParameters) {
  const Binding binding = small_binding();
  const std::vector<BucketSlot> slots = {{.parameter = 0, .offset = 0, .count = 0}};
  const Plan plan = make_plan(binding, slots, std::vector<std::string>{"fp32", "waterfill:4"});
  EXPECT_TRUE(plan.is_dense());
  EXPECT_TRUE(plan.dense.empty());
}

TEST(Runs, JoinAdjacentSegments) {
  const std::vector<Segment> segments = {{.slot = {.offset = 0, .count = 10}},
                                         {.slot = {.offset = 10, .count = 5}},
                                         {.slot = {.offset = 20, .count = 1}}};
  const DenseRuns found = runs_of(segments, 21);
  ASSERT_EQ(found.runs.size(), 2u);
  EXPECT_EQ(found.runs[0].count, 15u);
  EXPECT_EQ(found.runs[1].offset, 20u);
  EXPECT_EQ(found.runs[1].at, 15u);
  EXPECT_EQ(found.row_size, 16u);
}

// Two rows of 20 values: the parts of two parameters, which are longer in the first row.
TEST(Runs, FillRowsOfOneSize) {
  const std::vector<Segment> segments = {{.slot = {.offset = 0, .count = 10}},
                                         {.slot = {.offset = 20, .count = 8}},
                                         {.slot = {.offset = 10, .count = 3}},
                                         {.slot = {.offset = 30, .count = 2}}};
  const DenseRuns found = runs_of(segments, 20, 2);
  ASSERT_EQ(found.runs.size(), 3u);
  EXPECT_EQ(found.row_size, 13u);
  EXPECT_EQ(found.runs[0].count, 13u) << "adjacent in row 0";
  EXPECT_EQ(found.runs[1].row, 1u);
  EXPECT_EQ(found.runs[1].count, 8u);
  EXPECT_EQ(found.runs[2].offset, 30u);
  EXPECT_EQ(found.runs[2].at, 8u);
}

}  // namespace
}  // namespace nf
