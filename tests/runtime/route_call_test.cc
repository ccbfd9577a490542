#include "runtime/route_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  RouteCalls calls(*binding);
  const AllReduceCall call = calls.make(work, kRouted.segments);
  EXPECT_EQ(call.step, 7u);
  EXPECT_EQ(call.epoch, 2u);
  EXPECT_EQ(call.loss_scale, 8.0f);
  EXPECT_EQ(call.loss_scale_version, 3u);
  ASSERT_EQ(call.gradients.size(), 2u);
  EXPECT_EQ(call.gradients[0].parameter, parameter_key("block1.weight"));
  EXPECT_EQ(call.gradients[0].rows, 64u);
  EXPECT_EQ(call.gradients[1].values.data, values.data() + 3);
  EXPECT_EQ(call.gradients[1].values.count, 1u);
}

TEST(RegionShares, SplitTrafficAndTimeByValues) {
  const std::vector<RegionShare> shares = shares_of(kRouted);
  std::vector<RegionTraffic> traffic(2);
  add_traffic(traffic, shares, {.payload = 100, .sums = 40}, {.payload = 500, .sums = 240});
  add_seconds(traffic, shares, 2);
  EXPECT_THAT(traffic[1].low_bit_bytes, DoubleEq(300));
  EXPECT_THAT(traffic[0].low_bit_bytes, DoubleEq(100));
  EXPECT_THAT(traffic[1].low_bit_up_bytes, DoubleEq(150));
  EXPECT_THAT(traffic[0].seconds, DoubleEq(0.5));
}

}  // namespace
}  // namespace nf
