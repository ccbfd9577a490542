#include "runtime/route_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "neuron_fabric/reduce_scatter.h"
#include "support/fabric_job.h"

namespace nf {
namespace {

using testing::DoubleEq;

// Three values of parameter 0 in region 1, and one of parameter 1 in region 0.
const RoutedSegments kRouted = {
    .route = "waterfill:4",
    .segments = {{.slot = {.parameter = 0, .offset = 0, .count = 3}, .region = 1},
                 {.slot = {.parameter = 1, .offset = 3, .count = 1}, .region = 0}}};

TEST(RouteCalls, HaveTheGradientsAndTheStepOfABucket) {
  const auto binding = Binding::make(static_profile("waterfill:4"), test::small_model());
  ASSERT_TRUE(binding);
  auto step = std::make_shared<TrainingStep>();
  step->epoch = 2;
  step->statistics.step = 7;
  step->loss_scale = {.value = 8, .version = 3};
  std::vector<float> values(4);
  const BucketWork work({.values = Values(values)}, {}, step);
  const AllReduceCall call = RouteCalls::call_of(work);
  EXPECT_EQ(call.step, 7u);
  EXPECT_EQ(call.epoch, 2u);
  EXPECT_EQ(call.loss_scale, 8.0f);
  EXPECT_EQ(call.loss_scale_version, 3u);
  RouteValues filled;
  RouteCalls(*binding).fill(work, kRouted.segments, filled);
  ASSERT_EQ(filled.gradients.size(), 2u);
  EXPECT_EQ(filled.gradients[0].parameter, parameter_key("block1.weight"));
  EXPECT_EQ(filled.gradients[0].rows, 64u);
  EXPECT_EQ(filled.gradients[1].values.data, values.data() + 3);
  EXPECT_EQ(filled.gradients[1].values.count, 1u);
  EXPECT_TRUE(filled.shards.empty());
}

// Four rows of two values of one parameter; the last row has one.
TEST(RouteCalls, HaveTheShardsInTheOrderOfHostPositions) {
  const auto binding = Binding::make(static_profile("waterfill:4"), test::small_model());
  ASSERT_TRUE(binding);
  auto step = std::make_shared<TrainingStep>();
  std::vector<float> values(8);
  std::vector<Segment> segments;
  for (std::size_t row = 0; row < 4; ++row) {
    segments.push_back({.slot = {.parameter = 0, .offset = 2 * row, .count = row == 3 ? 1u : 2u}});
  }
  const BucketWork work({.values = Values(values)}, {}, step, {.count = 4, .own = 1});
  RouteValues filled;
  RouteCalls(*binding, /*positions=*/2).fill(work, segments, filled);
  EXPECT_THAT(filled.shards, testing::ElementsAre(1, 1, 1, 1));
  ASSERT_EQ(filled.gradients.size(), 4u);
  const std::uint64_t key = parameter_key("block1.weight");
  const std::uint32_t owners[] = {0, 2, 1, 3};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(filled.gradients[i].parameter, shard_key(key, owners[i]));
    EXPECT_EQ(filled.gradients[i].values.data, values.data() + 2 * owners[i]);
    EXPECT_EQ(filled.gradients[i].rows, 0u);
  }
}

TEST(RegionShares, SplitTrafficAndTimeByValues) {
  const std::vector<RegionShare> shares = shares_of(kRouted.segments);
  std::vector<RegionTraffic> traffic(2);
  add_traffic(traffic, shares, {.payload = 100, .sums = 40}, {.payload = 500, .sums = 240});
  add_seconds(traffic, shares, 2);
  EXPECT_THAT(traffic[1].low_bit_bytes, DoubleEq(300));
  EXPECT_THAT(traffic[0].low_bit_bytes, DoubleEq(100));
  EXPECT_THAT(traffic[1].low_bit_up_bytes, DoubleEq(150));
  EXPECT_THAT(traffic[0].seconds, DoubleEq(0.5));
}

TEST(RegionShares, DivideTheTimeOfAnExchangeByBytes) {
  const std::vector<Segment> dense = {
      {.slot = {.parameter = 2, .offset = 4, .count = 5}, .region = 0}};
  const std::vector<JoinedSegments> parts = {
      {.segments = kRouted.segments, .before = {.payload = 50}, .after = {.payload = 350}},
      {.segments = dense, .is_dense = true, .after = {.payload = 100}}};
  std::vector<RegionTraffic> traffic(2);
  const std::vector<RegionShare> shares = add_exchange(traffic, parts);
  EXPECT_THAT(traffic[1].low_bit_bytes, DoubleEq(225));
  EXPECT_THAT(traffic[0].low_bit_bytes, DoubleEq(75));
  EXPECT_THAT(traffic[0].sent_dense_bytes, DoubleEq(100));
  add_seconds(traffic, shares, 4);
  EXPECT_THAT(traffic[1].seconds, DoubleEq(2.25));
  EXPECT_THAT(traffic[0].seconds, DoubleEq(0.75 + 1));
}

// A single rank sends nothing.
TEST(RegionShares, AreNoneIfAnExchangeSendsNothing) {
  const std::vector<JoinedSegments> parts = {{.segments = kRouted.segments}};
  std::vector<RegionTraffic> traffic(2);
  EXPECT_TRUE(add_exchange(traffic, parts).empty());
}

}  // namespace
}  // namespace nf
