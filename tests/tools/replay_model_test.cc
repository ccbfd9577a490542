#include "nf/replay/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nf::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Fixed codec times: nothing is measured.
ReplayCase case_of(ReplayReducer reducer, std::uint32_t workers, double gbps) {
  ReplayCase one;
  one.reducer = reducer;
  one.workers = workers;
  one.link = {.gbps = gbps, .latency_us = 5};
  one.times = {.encode = 1e-10, .hop = 1e-10, .merge = 1e-11, .decode = 1e-10};
  one.shared = {.whole = {.seconds = 2e-4, .seconds_per_value = 3e-9},
                .reduce = {.seconds = 1e-4, .seconds_per_value = 1e-9}};
  one.capacity = capacity_of(one.timing, one.codec, workers);
  return one;
}

constexpr BucketTraffic kBucket{.step = 0, .values = 1'000'000, .low_bit_values = 1'000'000};
constexpr ReplayReducer kReducers[] = {ReplayReducer::kRing, ReplayReducer::kEndpoint,
                                       ReplayReducer::kCxl, ReplayReducer::kShared};

TEST(ReplayModel, ChargesDenseRingsForLatencyAndBytes) {
  const auto cost = cost_of(case_of(ReplayReducer::kCxl, 4, 8), kBucket);  // 8 Gb/s: 1 ns per byte
  ASSERT_TRUE(cost);
  EXPECT_NEAR(cost->fp32_us, 6 * 5 + 1.5 * 4000, 1e-6);
  EXPECT_NEAR(cost->bf16_us, 6 * 5 + 1.5 * 2000, 1e-6);
}

TEST(ReplayModel, TimeGrowsWithTheBucketAndShrinksWithTheLinkSpeed) {
  for (const ReplayReducer reducer : kReducers) {
    BucketTraffic larger = kBucket;
    larger.values *= 2;
    larger.low_bit_values *= 2;
    const auto small = cost_of(case_of(reducer, 8, 10), kBucket);
    const auto large = cost_of(case_of(reducer, 8, 10), larger);
    const auto fast = cost_of(case_of(reducer, 8, 100), kBucket);
    ASSERT_TRUE(small && large && fast);
    EXPECT_GT(large->low_bit_us, small->low_bit_us) << to_string(reducer);
    EXPECT_LE(fast->low_bit_us, small->low_bit_us) << to_string(reducer);
    EXPECT_LE(small->reduce_us, small->low_bit_us) << to_string(reducer);
  }
}

TEST(ReplayModel, PaysIfFasterThanBf16) {
  for (const ReplayReducer reducer : kReducers) {
    for (const double gbps : {0.1, 1.0, 10.0, 100.0, 1000.0}) {
      const auto cost = cost_of(case_of(reducer, 8, gbps), kBucket);
      ASSERT_TRUE(cost);
      EXPECT_EQ(cost->pays, cost->low_bit_us < cost->bf16_us);
      EXPECT_THAT(cost->reason, HasSubstr(cost->pays ? "as fast as bf16" : "slower than bf16"));
    }
    // A software endpoint has a single link, which eight workers saturate.
    const std::uint32_t workers = reducer == ReplayReducer::kEndpoint ? 2 : 8;
    EXPECT_TRUE(cost_of(case_of(reducer, workers, 0.1), kBucket)->pays) << to_string(reducer);
  }
  EXPECT_FALSE(cost_of(case_of(ReplayReducer::kEndpoint, 8, 0.1), kBucket)->pays);
  EXPECT_FALSE(cost_of(case_of(ReplayReducer::kCxl, 8, 1000), kBucket)->pays);
}

TEST(ReplayModel, SendsTheOtherValuesDense) {
  BucketTraffic half = kBucket;
  half.low_bit_values /= 2;
  const auto cost = cost_of(case_of(ReplayReducer::kCxl, 4, 1), half);
  const auto dense = cost_of(case_of(ReplayReducer::kCxl, 4, 1),
                             {.step = 0, .values = 500'000, .low_bit_values = 0});
  ASSERT_TRUE(cost && dense);
  EXPECT_GT(cost->low_bit_us, dense->fp32_us);
  EXPECT_EQ(dense->low_bit_us, dense->fp32_us);
  EXPECT_FALSE(dense->pays);
}

TEST(ReplayModel, FallsBackIfTheReducerHasNoCapacity) {
  const auto many_workers = cost_of(case_of(ReplayReducer::kCxl, 65, 0.1), kBucket);
  ASSERT_TRUE(many_workers);
  EXPECT_FALSE(many_workers->pays);
  EXPECT_EQ(many_workers->reason, "capacity: counters for at most 64 workers");
  const BucketTraffic huge{.step = 0, .values = 1u << 30, .low_bit_values = 1u << 30};
  const auto lines = cost_of(case_of(ReplayReducer::kCxl, 8, 0.1), huge);
  ASSERT_TRUE(lines);
  EXPECT_FALSE(lines->pays);
  EXPECT_THAT(lines->reason, StartsWith("capacity: 16777216 lines exceed the queue of 8388608"));
}

TEST(ReplayModel, ComputesASharedSumFromItsLinearFit) {
  const auto cost = cost_of(case_of(ReplayReducer::kShared, 4, 8), kBucket);
  ASSERT_TRUE(cost);
  EXPECT_NEAR(cost->low_bit_us, 3200, 1e-6);
  EXPECT_NEAR(cost->reduce_us, 1100, 1e-6);
  EXPECT_EQ(cost->reason, "slower than bf16: mostly codec time");
}

TEST(ReplayModel, ComputesTheCapacityOfADevice) {
  const cxl::Timing timing;
  const ReducerCapacity binary = capacity_of(timing, "g_binary", 8);
  EXPECT_EQ(binary.most_workers, 64u);
  EXPECT_EQ(binary.queue_lines, 8u << 20);
  // Memory traffic: five lines read, five written, four channels of 3.33 ns, plus bus turnarounds.
  EXPECT_NEAR(binary.lines_per_second, 1 / 9.15e-9, 1e6);
  EXPECT_LT(capacity_of(timing, "g_ternary", 64).lines_per_second, binary.lines_per_second);
}

}  // namespace
}  // namespace nf::cli
