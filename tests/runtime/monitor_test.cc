#include "runtime/monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>

namespace nf {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Two regions, `body` and `head`.
Profile two_regions() {
  Profile profile;
  profile.regions = {Region{.name = "body"}, Region{.name = "head"}};
  return profile;
}

// A healthy step: both norms are `norm`, nothing else was reduced.
StepStatistics step_of(double norm) {
  StepStatistics statistics;
  statistics.regions.resize(2);
  for (RegionStatistics& region : statistics.regions) region.energy = norm * norm;
  return statistics;
}

StepStatistics step_with_loss(double loss) {
  StepStatistics statistics = step_of(1);
  statistics.loss = loss;
  statistics.losses = 4;
  return statistics;
}

void settle(Monitor& monitor, const StepStatistics& statistics, int steps = 10) {
  for (int i = 0; i < steps; ++i) {
    ASSERT_THAT(monitor.observe(statistics), Each(std::nullopt));
  }
}

TEST(RunningMean, IsThePlainMeanAndVarianceOfTheFirstValues) {
  RunningMean mean;
  for (int i = 1; i <= 50; ++i) mean.add(i);
  EXPECT_NEAR(mean.mean, 25.5, 1e-12);
  EXPECT_NEAR(mean.variance, (50.0 * 50 - 1) / 12, 1e-10);
}

TEST(RunningMean, DecaysByAFiftiethPerStepAfterwards) {
  RunningMean mean;
  for (int i = 0; i < 50; ++i) mean.add(1);
  for (int i = 0; i < 100; ++i) mean.add(0);
  EXPECT_NEAR(mean.mean, std::pow(0.98, 100), 1e-12);
}

TEST(Monitor, DetectsOneNonFiniteValue) {
  Monitor monitor(two_regions());
  StepStatistics statistics = step_of(1);
  statistics.regions[1].non_finite = 1;
  EXPECT_THAT(monitor.observe(statistics), ElementsAre(std::nullopt, Reason::kNonFinite));
}

TEST(Monitor, TreatsANanEnergyAsNonFinite) {
  for (const double energy : {kNaN, kInfinity}) {
    Monitor monitor(two_regions());
    StepStatistics statistics = step_of(1);
    statistics.regions[0].energy = energy;
    EXPECT_THAT(monitor.observe(statistics), ElementsAre(Reason::kNonFinite, std::nullopt));
  }
}

TEST(Monitor, IgnoresTheNormOfANonFiniteStep) {
  Monitor monitor(two_regions());
  settle(monitor, step_of(1));
  StepStatistics statistics = step_of(1e6);
  statistics.regions[0].non_finite = 3;
  monitor.observe(statistics);
  EXPECT_EQ(monitor.means().norms[0].count, 10u);
  EXPECT_EQ(monitor.means().norms[0].mean, 1);
}

TEST(Monitor, DetectsANormAboveItsMultipleOfTheMean) {
  Monitor monitor(two_regions());
  settle(monitor, step_of(2));
  EXPECT_THAT(monitor.observe(step_of(20)), Each(std::nullopt));
  Monitor other(two_regions());
  settle(other, step_of(2));
  EXPECT_THAT(other.observe(step_of(20.001)), Each(Reason::kNormSpike));
}

TEST(Monitor, NeedsTenNormsBeforeItsLimitApplies) {
  Monitor monitor(two_regions());
  settle(monitor, step_of(1), 9);
  EXPECT_THAT(monitor.observe(step_of(1000)), Each(std::nullopt));
}

TEST(Monitor, AcceptsANewLevelOfTheNorm) {
  Monitor monitor(two_regions());
  settle(monitor, step_of(1), 100);
  int spikes = 0;
  while (monitor.observe(step_of(500))[0] == Reason::kNormSpike) {
    ++spikes;
    ASSERT_LT(spikes, 50);
  }
  EXPECT_GT(spikes, 10);
  EXPECT_THAT(monitor.observe(step_of(500)), Each(std::nullopt));
}

TEST(Monitor, IsNotAffectedByOneSpikeOfTheNorm) {
  Monitor monitor(two_regions());
  settle(monitor, step_of(1), 100);
  monitor.observe(step_of(1e30));
  EXPECT_NEAR(monitor.means().norms[0].mean, 1.18, 1e-9);
}

TEST(Monitor, IgnoresARegionWithoutGradients) {
  Monitor monitor(two_regions());
  for (int i = 0; i < 400; ++i) {
    // Used every twentieth step.
    ASSERT_THAT(monitor.observe(step_of(i % 20 == 0 ? 3 : 0)), Each(std::nullopt)) << i;
  }
  EXPECT_EQ(monitor.means().norms[0].count, 20u);
}

TEST(Monitor, DetectsALossSpike) {
  Monitor monitor(two_regions());
  settle(monitor, step_with_loss(2));
  // The deviation is at least a twentieth of the mean: the limit is 2 + 6 * 0.1.
  EXPECT_THAT(monitor.observe(step_with_loss(2.59)), Each(std::nullopt));
  Monitor other(two_regions());
  settle(other, step_with_loss(2));
  EXPECT_THAT(other.observe(step_with_loss(2.61)), Each(Reason::kLossSpike));
}

TEST(Monitor, MeasuresALossSpikeInDeviations) {
  Monitor monitor(two_regions());
  for (int i = 0; i < 50; ++i) monitor.observe(step_with_loss(i % 2 == 0 ? 1 : 3));
  // Mean 2, deviation 1.
  EXPECT_THAT(monitor.observe(step_with_loss(7.9)), Each(std::nullopt));
  EXPECT_THAT(monitor.observe(step_with_loss(20)), Each(Reason::kLossSpike));
}

TEST(Monitor, AcceptsAFallingLoss) {
  Monitor monitor(two_regions());
  settle(monitor, step_with_loss(5), 50);
  EXPECT_THAT(monitor.observe(step_with_loss(-100)), Each(std::nullopt));
}

TEST(Monitor, DetectsANanLossFromTheFirstStep) {
  for (const double loss : {kNaN, kInfinity, -kInfinity, 1e200}) {
    Monitor monitor(two_regions());
    EXPECT_THAT(monitor.observe(step_with_loss(loss)), Each(Reason::kLossSpike));
    EXPECT_EQ(monitor.means().loss.count, 0u);
  }
}

TEST(Monitor, AcceptsANewLevelOfTheLoss) {
  Monitor monitor(two_regions());
  settle(monitor, step_with_loss(1), 100);
  int spikes = 0;
  while (monitor.observe(step_with_loss(100))[0] == Reason::kLossSpike) {
    ++spikes;
    ASSERT_LT(spikes, 50);
  }
  EXPECT_GT(spikes, 2);
}

TEST(Monitor, HasNoLimitAfterLossesOfZero) {
  Monitor monitor(two_regions());
  settle(monitor, step_with_loss(0), 20);
  EXPECT_THAT(monitor.observe(step_with_loss(3)), Each(std::nullopt));
}

TEST(Monitor, IgnoresTheLossIfNoRankObservedOne) {
  Monitor monitor(two_regions());
  StepStatistics statistics = step_of(1);
  statistics.loss = kNaN;
  EXPECT_THAT(monitor.observe(statistics), Each(std::nullopt));
  EXPECT_EQ(monitor.means().loss.count, 0u);
}

TEST(Monitor, AppliesTheErrorBudgetOfEachRegion) {
  Profile profile = two_regions();
  profile.health.error_budget = 0.25;
  profile.regions[1].error_budget = 0.5;
  Monitor monitor(profile);
  StepStatistics statistics = step_of(1);
  for (RegionStatistics& region : statistics.regions) region.sample_energy = 8;
  const auto with_error = [&](double error) {
    for (RegionStatistics& region : statistics.regions) region.error_energy = error;
    return monitor.observe(statistics);
  };
  EXPECT_THAT(with_error(2), ElementsAre(std::nullopt, std::nullopt));
  EXPECT_THAT(with_error(2.01), ElementsAre(Reason::kErrorBudget, std::nullopt));
  EXPECT_THAT(with_error(4.01), ElementsAre(Reason::kErrorBudget, Reason::kErrorBudget));
  EXPECT_THAT(with_error(kNaN), ElementsAre(Reason::kErrorBudget, Reason::kErrorBudget));
}

TEST(Monitor, HasNoErrorWithoutASample) {
  Monitor monitor(two_regions());
  StepStatistics statistics = step_of(1);
  statistics.regions[0].error_energy = 1;
  EXPECT_THAT(monitor.observe(statistics), Each(std::nullopt));
}

TEST(Monitor, DetectsAReducerThatRejectedData) {
  Monitor monitor(two_regions());
  StepStatistics statistics = step_of(1);
  statistics.capacity_breaches = 1;
  EXPECT_THAT(monitor.observe(statistics), Each(Reason::kCapacity));
}

TEST(Monitor, ComparesTheLinesOfAStepWithTheReducersRate) {
  Profile profile = two_regions();
  profile.reducer.lines_per_second = 1000;
  Monitor monitor(profile);
  StepStatistics statistics = step_of(1);
  statistics.seconds = 0.5;
  statistics.lines = 500;
  EXPECT_THAT(monitor.observe(statistics), Each(std::nullopt));
  statistics.lines = 501;
  EXPECT_THAT(monitor.observe(statistics), Each(Reason::kCapacity));
  statistics.seconds = 0;
  EXPECT_THAT(monitor.observe(statistics), Each(std::nullopt)) << "the time is unknown";
}

TEST(Monitor, HasNoLineLimitIfTheReducerHasNone) {
  Monitor monitor(two_regions());
  StepStatistics statistics = step_of(1);
  statistics.seconds = 1e-9;
  statistics.lines = 1e18;
  EXPECT_THAT(monitor.observe(statistics), Each(std::nullopt));
}

// All breaches at once, then without the worst, and so on.
TEST(Monitor, ReportsTheWorstOfSeveralBreaches) {
  Monitor monitor(two_regions());
  settle(monitor, step_with_loss(1), 50);
  StepStatistics statistics = step_with_loss(kNaN);
  statistics.capacity_breaches = 1;
  for (RegionStatistics& region : statistics.regions) {
    region = {.energy = 1e6, .non_finite = 1, .error_energy = 1, .sample_energy = 1};
  }
  EXPECT_THAT(monitor.observe(statistics), Each(Reason::kNonFinite));
  for (RegionStatistics& region : statistics.regions) region.non_finite = 0;
  EXPECT_THAT(monitor.observe(statistics), Each(Reason::kCapacity));
  statistics.capacity_breaches = 0;
  EXPECT_THAT(monitor.observe(statistics), Each(Reason::kLossSpike));
  statistics.loss = 1;
  EXPECT_THAT(monitor.observe(statistics), Each(Reason::kNormSpike));
  for (RegionStatistics& region : statistics.regions) region.energy = 1;
  EXPECT_THAT(monitor.observe(statistics), Each(Reason::kErrorBudget));
  for (RegionStatistics& region : statistics.regions) region.error_energy = 0;
  EXPECT_THAT(monitor.observe(statistics), Each(std::nullopt));
}

TEST(Monitor, ReportsNoBreachInANoisyHealthyRun) {
  std::mt19937 generator(4);
  std::normal_distribution<double> noise;
  Monitor monitor(two_regions());
  for (int i = 0; i < 5000; ++i) {
    StepStatistics statistics =
        step_with_loss(1 + 4 * std::exp(-i / 500.0) + 0.2 * noise(generator));
    for (RegionStatistics& region : statistics.regions) {
      region.energy = std::exp(0.8 * noise(generator));
      region.sample_energy = 1;
      region.error_energy = 0.01;
    }
    ASSERT_THAT(monitor.observe(statistics), Each(std::nullopt)) << "step " << i;
  }
}

TEST(Monitor, KeepsItsMeansFiniteForAnyInput) {
  std::mt19937 generator(5);
  const double values[] = {0, 1, 1e-300, 1e300, 1e149, -1e149, kNaN, kInfinity, -kInfinity, -1};
  std::uniform_int_distribution<std::size_t> pick(0, std::size(values) - 1);
  Monitor monitor(two_regions());
  for (int i = 0; i < 2000; ++i) {
    StepStatistics statistics = step_with_loss(values[pick(generator)]);
    for (RegionStatistics& region : statistics.regions) region.energy = values[pick(generator)];
    monitor.observe(statistics);
    ASSERT_TRUE(std::isfinite(monitor.means().loss.mean));
    ASSERT_TRUE(std::isfinite(monitor.means().loss.variance));
    for (const RunningMean& norm : monitor.means().norms) {
      ASSERT_TRUE(std::isfinite(norm.mean));
      ASSERT_TRUE(std::isfinite(norm.variance));
    }
  }
}

}  // namespace
}  // namespace nf
