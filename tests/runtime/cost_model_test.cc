#include "runtime/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace nf {
namespace {

using testing::DoubleEq;
using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint32_t kRanks = 4;

// 200 Mb/s per rank, as measured without TCP headers.
constexpr LinkFigures kSlowLink = {.latency = 2e-4,
                                   .bytes_per_second = 23.8e6,
                                   .dense_latency = 1e-3,
                                   .dense_bytes_per_second = 23.8e6};
constexpr LinkFigures kLoopback = {
    .latency = 2e-5, .bytes_per_second = 4e9, .dense_latency = 1e-4, .dense_bytes_per_second = 3e9};

// FP32 values at a budget of 4 bits.
BucketLoad::LowBit part_of(std::uint32_t region, std::size_t values) {
  return {.region = region,
          .bytes = 4 * values,
          .values = values,
          .wire_bytes = values * 3 / 4,  // half a byte per value, 2 (n - 1) / n times
          .hops = 2,
          .codec = {.seconds_per_value = 4e-9}};
}

BucketLoad bucket_of(double ready, std::vector<BucketLoad::LowBit> parts) {
  return {.ready = ready, .low_bit = std::move(parts)};
}

TEST(CostModel, PricesTheEnginesAllReduceByTheBytesThatARankSends) {
  const CostModel model({.dense_latency = 0.5, .dense_bytes_per_second = 1000}, kRanks);
  EXPECT_THAT(model.dense_seconds(2000), DoubleEq(0.5 + 2 * 0.75 * 2000 / 1000));
  EXPECT_EQ(model.dense_seconds(0), 0);
}

TEST(CostModel, PricesLowBitsByHopsBytesAndValues) {
  const CostModel model({.latency = 0.25, .bytes_per_second = 1000}, kRanks);
  const BucketLoad::LowBit part = {
      .values = 100, .wire_bytes = 500, .hops = 2, .codec = {.seconds_per_value = 0.001}};
  EXPECT_THAT(model.low_bit_seconds(part), DoubleEq(2 * 0.25 + 0.5 + 0.1));
}

TEST(CostModel, TreatsASpeedOfZeroAsNoTime) {
  const CostModel model({}, kRanks);
  EXPECT_EQ(model.dense_seconds(1000), 0);
  EXPECT_THAT(model.low_bit_seconds(part_of(0, 1000)), DoubleEq(4e-6));
}

TEST(CostModel, SendsAllDenseValuesOfABucketInOneAllReduce) {
  const CostModel model(kSlowLink, kRanks);
  BucketLoad bucket = bucket_of(0, {part_of(0, 1000), part_of(1, 1 << 20)});
  bucket.dense_bytes = 400;
  EXPECT_THAT(model.bucket_seconds(bucket, {false, false}).total(),
              DoubleEq(model.dense_seconds(400 + 4000 + (4 << 20))));
  // Region 1 is too large to travel with region 0.
  EXPECT_THAT(model.bucket_seconds(bucket, {true, false}).low_bit,
              DoubleEq(model.low_bit_seconds(bucket.low_bit[0])));
  EXPECT_THAT(model.bucket_seconds(bucket, {true, false}).dense,
              DoubleEq(model.dense_seconds(400 + (4 << 20))));
}

TEST(CostModel, SendsSmallDenseValuesWithTheLowBits) {
  const CostModel model(kSlowLink, kRanks);
  BucketLoad bucket = bucket_of(0, {part_of(0, 1000)});
  bucket.dense_bytes = 4000;
  const CostModel::BucketSeconds seconds = model.bucket_seconds(bucket, {true});
  EXPECT_EQ(seconds.dense, 0);
  EXPECT_THAT(seconds.low_bit, DoubleEq(model.low_bit_seconds(bucket.low_bit[0]) +
                                        1.5 * 4000 / kSlowLink.bytes_per_second));
}

// The latency of the longest, and all their bytes and values.
TEST(CostModel, PaysTheLatencyOfSeveralRoutesOnce) {
  const CostModel model(kSlowLink, kRanks);
  BucketLoad bucket = bucket_of(0, {part_of(0, 1000), part_of(1, 2000), part_of(2, 3000)});
  bucket.low_bit[1].hops = 5;
  double alone = 0;
  for (const BucketLoad::LowBit& part : bucket.low_bit) alone += model.low_bit_seconds(part);
  EXPECT_THAT(model.bucket_seconds(bucket, {true, true, true}).total(),
              DoubleEq(alone - 4 * kSlowLink.latency));
  // Except for those with a collective of their own.
  bucket.low_bit[0].is_alone = true;
  EXPECT_THAT(model.bucket_seconds(bucket, {true, true, true}).total(),
              DoubleEq(alone - 2 * kSlowLink.latency));
}

// Each region gains given the other, because it saves no latency to drop only one.
TEST(CostModel, FindsNothingUsefulIfAllRegionsTogetherOnlyCost) {
  const CostModel model({.latency = 1, .bytes_per_second = 1000, .dense_bytes_per_second = 1000},
                        kRanks);
  const std::vector<BucketLoad> step = {bucket_of(0, {part_of(0, 100), part_of(1, 100)})};
  ASSERT_GT(model.exposed_seconds(step, {true, true}), model.exposed_seconds(step, {false, false}));
  ASSERT_LT(model.exposed_seconds(step, {true, true}), model.exposed_seconds(step, {true, false}));
  EXPECT_THAT(model.useful(step, {true, true}, {true, true}), Each(false));
}

TEST(CostModel, CostsNothingWithOneRank) {
  const CostModel model(kSlowLink, 1);
  const std::vector<BucketLoad> step = {bucket_of(0, {part_of(0, 1 << 20)})};
  EXPECT_EQ(model.exposed_seconds(step, {false}), 0);
  EXPECT_EQ(model.exposed_seconds(step, {true}), 0);
  EXPECT_THAT(model.useful(step, {true}, {false}), ElementsAre(false));
}

TEST(CostModel, ExposesTheTimeAfterTheLastBucketIsReady) {
  const CostModel model({.dense_bytes_per_second = 1.5}, kRanks);  // one byte per second
  const auto dense = [](double ready, std::size_t bytes) {
    return BucketLoad{.ready = ready, .dense_bytes = bytes, .low_bit = {}};
  };
  EXPECT_EQ(model.exposed_seconds({}, {}), 0);
  // The first is done at 3, before the second is ready.
  EXPECT_THAT(model.exposed_seconds(std::vector{dense(0, 3), dense(5, 2)}, {}), DoubleEq(2));
  // The first delays the second until 9.
  EXPECT_THAT(model.exposed_seconds(std::vector{dense(0, 9), dense(5, 2)}, {}), DoubleEq(6));
  EXPECT_THAT(model.exposed_seconds(std::vector{dense(0, 9), dense(5, 0)}, {}), DoubleEq(4));
}

// 64 MiB over a ring of four, as in bench/README.md: the sum of link and codec time is close to the
// measurement on both links.
TEST(CostModel, IsNearTheMeasuredTimesOfBothLinks) {
  constexpr std::size_t kValues = std::size_t{16} << 20;
  const BucketLoad::LowBit waterfill = {.bytes = 4 * kValues,
                                        .values = kValues,
                                        .wire_bytes = 12'589'961,
                                        .hops = 6,
                                        .codec = {.seconds_per_value = 4e-9}};
  EXPECT_THAT(CostModel(kSlowLink, kRanks).low_bit_seconds(waterfill),
              DoubleNear(0.583, 0.25 * 0.583));
  EXPECT_THAT(CostModel(kLoopback, kRanks).low_bit_seconds(waterfill),
              DoubleNear(0.075, 0.25 * 0.075));
}

TEST(CostModel, FindsLowBitsUsefulOnASlowLinkAndNotOnLoopback) {
  const std::vector<BucketLoad> step = {bucket_of(0, {part_of(0, 1 << 22)}),
                                        bucket_of(0.05, {part_of(0, 1 << 22)})};
  EXPECT_THAT(CostModel(kSlowLink, kRanks).useful(step, {true}, {false}), ElementsAre(true));
  EXPECT_THAT(CostModel(kLoopback, kRanks).useful(step, {true}, {false}), ElementsAre(false));
}

TEST(CostModel, FindsNothingUsefulIfBackwardHidesIt) {
  const CostModel model(kSlowLink, kRanks);
  // Region 0 is done long before the last bucket is ready, region 1 is that bucket.
  const std::vector<BucketLoad> step = {bucket_of(0, {part_of(0, 1 << 20)}),
                                        bucket_of(10, {part_of(1, 1 << 20)})};
  EXPECT_THAT(model.useful(step, {true, true}, {false, false}), ElementsAre(false, true));
  EXPECT_THAT(model.useful(step, {true, true}, {true, true}), ElementsAre(false, true));
}

TEST(CostModel, FindsOnlyCandidatesUseful) {
  const CostModel model(kSlowLink, kRanks);
  const std::vector<BucketLoad> step = {bucket_of(0, {part_of(0, 1 << 20), part_of(1, 1 << 20)})};
  EXPECT_THAT(model.useful(step, {false, true}, {true, true}), ElementsAre(false, true));
  EXPECT_THAT(model.useful(step, {false, false}, {true, true}), Each(false));
}

TEST(CostModel, AdmitsManySmallRegionsThatPayTogether) {
  const CostModel model(kSlowLink, kRanks);
  constexpr std::uint32_t kRegions = 300;
  std::vector<BucketLoad> step;
  for (std::uint32_t r = 0; r < kRegions; ++r) step.push_back(bucket_of(0, {part_of(r, 1 << 17)}));
  const std::vector<bool> all(kRegions, true);
  EXPECT_THAT(model.useful(step, all, std::vector<bool>(kRegions)), Each(true));
}

TEST(CostModel, DropsARegionThatOnlyCosts) {
  const CostModel model(kSlowLink, kRanks);
  BucketLoad::LowBit slow = part_of(1, 1 << 20);
  slow.codec.seconds_per_value = 1e-6;
  const std::vector<BucketLoad> step = {bucket_of(0, {part_of(0, 1 << 20), slow})};
  EXPECT_THAT(model.useful(step, {true, true}, {false, false}), ElementsAre(true, false));
  EXPECT_THAT(model.useful(step, {true, true}, {false, true}), ElementsAre(true, false));
}

// 1 s if dense, 1 s minus `gain` at low bits.
std::vector<BucketLoad> step_that_gains(double gain) {
  return {bucket_of(0, {{.bytes = 1000,
                         .values = 1000,
                         .wire_bytes = 0,
                         .hops = 0,
                         .codec = {.seconds_per_value = (1 - gain) / 1000}}})};
}

TEST(CostModel, RequiresTheMarginOnlyOfRegionsNotInUse) {
  const CostModel model({.dense_bytes_per_second = 1500}, kRanks);
  EXPECT_THAT(model.useful(step_that_gains(0.06), {true}, {false}), ElementsAre(true));
  EXPECT_THAT(model.useful(step_that_gains(0.04), {true}, {false}), ElementsAre(false));
  EXPECT_THAT(model.useful(step_that_gains(0.04), {true}, {true}), ElementsAre(true));
  EXPECT_THAT(model.useful(step_that_gains(-0.01), {true}, {true}), ElementsAre(false));
  EXPECT_THAT(model.useful(step_that_gains(0.04), {true}, {false}, 0.03), ElementsAre(true));
}

// For any step, the useful regions expose no more time than all dense ones, and another call with
// these in use returns the same.
TEST(CostModel, NeverLengthensAStepAndKeepsItsChoice) {
  std::mt19937 generator(6);
  std::uniform_real_distribution<double> uniform(0, 1);
  constexpr std::uint32_t kRegions = 5;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<BucketLoad> step;
    for (int b = 0; b < 8; ++b) {
      BucketLoad bucket = bucket_of(0.05 * b * uniform(generator), {});
      bucket.dense_bytes = static_cast<std::size_t>(1e5 * uniform(generator));
      for (std::uint32_t r = 0; r < kRegions; ++r) {
        if (uniform(generator) < 0.5) continue;
        BucketLoad::LowBit part = part_of(r, static_cast<std::size_t>(1e6 * uniform(generator)));
        part.codec.seconds_per_value = 2e-7 * uniform(generator) * uniform(generator);
        bucket.low_bit.push_back(part);
      }
      step.push_back(bucket);
    }
    const CostModel model(kSlowLink, kRanks);
    const std::vector<bool> all(kRegions, true);
    const std::vector<bool> none(kRegions, false);
    const std::vector<bool> chosen = model.useful(step, all, none);
    ASSERT_LE(model.exposed_seconds(step, chosen), model.exposed_seconds(step, none));
    ASSERT_EQ(model.useful(step, all, none), chosen);
    ASSERT_EQ(model.useful(step, chosen, chosen), chosen) << "trial " << trial;
  }
}

TEST(CostModel, AdaptsToAHostThatIsThreeTimesSlowerThanMeasured) {
  CostModel model(kSlowLink, kRanks);
  const BucketLoad::LowBit part = part_of(0, 1 << 20);
  const double first = model.low_bit_seconds(part);
  model.correct_low_bit(first, 3 * first);
  EXPECT_THAT(model.low_bit_correction(), DoubleEq(1.2));
  for (int i = 0; i < 60; ++i) model.correct_low_bit(model.low_bit_seconds(part), 3 * first);
  EXPECT_THAT(model.low_bit_seconds(part), DoubleNear(3 * first, 0.01 * first));
  EXPECT_EQ(model.dense_correction(), 1) << "the corrections are independent";
}

TEST(CostModel, CorrectsDenseTimesByTheirOwnFactor) {
  CostModel model(kSlowLink, kRanks);
  const double first = model.dense_seconds(1 << 20);
  model.correct_dense(first, 0.5 * first);
  EXPECT_THAT(model.dense_correction(), DoubleEq(0.95));
  EXPECT_THAT(model.dense_seconds(1 << 20), DoubleEq(0.95 * first));
  EXPECT_EQ(model.low_bit_correction(), 1);
}

TEST(CostModel, LimitsCorrectionsToATenthAndTenTimes) {
  CostModel model(kSlowLink, kRanks);
  model.correct_low_bit(1, 1e9);
  EXPECT_THAT(model.low_bit_correction(), DoubleEq(1.9)) << "a single hang has limited weight";
  for (int i = 0; i < 1000; ++i) {
    model.correct_low_bit(1, 1e9);
    model.correct_dense(1, 1e-9);
  }
  EXPECT_THAT(model.low_bit_correction(), DoubleNear(10, 1e-6));
  EXPECT_THAT(model.dense_correction(), DoubleNear(0.1, 1e-6));
  EXPECT_LE(model.low_bit_correction(), 10);
}

TEST(CostModel, RestoresCorrections) {
  CostModel learnt(kSlowLink, kRanks);
  learnt.correct_dense(1, 2);
  learnt.correct_low_bit(2, 1);
  CostModel model(kSlowLink, kRanks);
  model.load_corrections(learnt.dense_correction(), learnt.low_bit_correction());
  EXPECT_EQ(model.dense_seconds(1000), learnt.dense_seconds(1000));
  EXPECT_EQ(model.low_bit_seconds(part_of(0, 1000)), learnt.low_bit_seconds(part_of(0, 1000)));

  model.load_corrections(kNaN, 1e9);
  EXPECT_EQ(model.dense_correction(), 1);
  EXPECT_EQ(model.low_bit_correction(), 10);
}

TEST(CostModel, IgnoresInvalidTimes) {
  CostModel model(kSlowLink, kRanks);
  for (const double time : {0.0, -1.0, kNaN, kInfinity}) {
    model.correct_dense(time, 1);
    model.correct_dense(1, time);
    model.correct_low_bit(time, 1);
    model.correct_low_bit(1, time);
  }
  EXPECT_EQ(model.dense_correction(), 1);
  EXPECT_EQ(model.low_bit_correction(), 1);
}

}  // namespace
}  // namespace nf
