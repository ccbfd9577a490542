#include "nf/quality/error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace nf::cli {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

ErrorSums sums_of(const std::vector<float>& sum, const std::vector<double>& exact,
                  std::size_t block = 256, const std::vector<double>& dropped = {}) {
  return measure_piece({.piece = {}, .sum = sum, .exact = exact, .dropped = dropped}, block);
}

TrialError trial_of(const std::vector<float>& sum, const std::vector<double>& exact) {
  const ErrorSums sums = sums_of(sum, exact);
  return trial_error({&sums, 1});
}

TEST(QualityError, IsNormalizedByTheSquaredExactSum) {
  const TrialError trial = trial_of({3, 5, 0}, {3, 4, 0});
  EXPECT_DOUBLE_EQ(trial.vnmse, 1.0 / 25);
  EXPECT_DOUBLE_EQ(trial.slope, (9 + 20) / 25.0);
  EXPECT_DOUBLE_EQ(trial.cosine, (9 + 20) / std::sqrt(25.0 * 34));
  EXPECT_EQ(trial.dropped, 0);
}

TEST(QualityError, DoesNotDependOnTheBlockSize) {
  const std::vector<float> sum = {1, 2, 3, 4, 5};
  const std::vector<double> exact = {1.5, 2, 2, 4, 7};
  const ErrorSums whole = sums_of(sum, exact, 5);
  const ErrorSums parts = sums_of(sum, exact, 2);
  EXPECT_EQ(parts.blocks.size(), 3u);
  EXPECT_DOUBLE_EQ(parts.error, whole.error);
  EXPECT_DOUBLE_EQ(parts.missing, whole.missing);
}

TEST(QualityError, WeightsParametersBySize) {
  const std::vector<ErrorSums> sums = {sums_of({2}, {1}), sums_of({1.5, 1, 1}, {1, 1, 1})};
  const TrialError trial = trial_error(sums);
  const std::vector<ParameterShape> shapes = {{"a", 1}, {"b", 3}};
  const MeanError mean = mean_error({&trial, 1}, shapes);
  EXPECT_DOUBLE_EQ(mean.vnmse, 1.25 / 4);
  EXPECT_DOUBLE_EQ(mean.parameter_vnmse, (1 * 1 + 3 * (0.25 / 3)) / 4);
  EXPECT_DOUBLE_EQ(mean.worst_parameter_vnmse, 1);
  EXPECT_EQ(mean.worst_parameter, 0u);
  EXPECT_TRUE(std::isnan(mean.vnmse_ci));
}

TEST(QualityError, SkipsZeroParametersUnlessTheSumIsNonZero) {
  const std::vector<ParameterShape> shapes = {{"a", 2}, {"b", 1}};
  const std::vector<ErrorSums> zeros = {sums_of({0, 0}, {0, 0}), sums_of({2}, {4})};
  TrialError trial = trial_error(zeros);
  EXPECT_DOUBLE_EQ(mean_error({&trial, 1}, shapes).parameter_vnmse, 0.25);
  const std::vector<ErrorSums> noisy = {sums_of({0, 1e-30f}, {0, 0}), sums_of({4}, {4})};
  trial = trial_error(noisy);
  const MeanError mean = mean_error({&trial, 1}, shapes);
  EXPECT_EQ(mean.parameter_vnmse, kInfinity);
  EXPECT_EQ(mean.worst_parameter_vnmse, kInfinity);
  EXPECT_EQ(mean.worst_parameter, 0u);
}

TEST(QualityError, IsInfiniteForNan) {
  EXPECT_EQ(trial_of({1, std::nanf("")}, {1, 1}).vnmse, kInfinity);
}

TEST(QualityError, SlopeAndDroppedShareAddUpToOne) {
  const ErrorSums sums = sums_of({3, 0}, {3, 4}, 1, {0, 4});
  const TrialError trial = trial_error({&sums, 1});
  EXPECT_DOUBLE_EQ(trial.dropped, 16.0 / 25);
  EXPECT_DOUBLE_EQ(trial.slope + trial.dropped, 1);
  EXPECT_NEAR(trial.slope_variance, 0, 1e-30);
}

// The true slope, 1, lies within the half width in 95 % of all repeats.
TEST(QualityError, EstimatesTheConfidenceIntervalOfTheSlope) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  int within = 0;
  for (int repeat = 0; repeat < 400; ++repeat) {
    std::vector<TrialError> trials;
    for (int t = 0; t < 2; ++t) {
      std::vector<double> exact(2048);
      std::vector<float> sum(exact.size());
      for (std::size_t i = 0; i < exact.size(); ++i) {
        exact[i] = normal(random) * (i / 32 % 3 == 0 ? 5 : 1);
        sum[i] = static_cast<float>(exact[i] + normal(random));
      }
      const ErrorSums sums = sums_of(sum, exact, 32);
      trials.push_back(trial_error({&sums, 1}));
    }
    const std::vector<ParameterShape> shapes = {{"a", 2048}};
    const MeanError mean = mean_error(trials, shapes);
    within += std::abs(mean.slope - 1) <= mean.slope_ci ? 1 : 0;
  }
  EXPECT_NEAR(within, 380, 15);
}

// One trial, in which a few of 64 blocks have most of the energy.
TEST(QualityError, WidensTheIntervalOfTheSlopeIfFewBlocksDecide) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  int within = 0;
  for (int repeat = 0; repeat < 400; ++repeat) {
    std::vector<double> exact(64 * 32);
    std::vector<float> sum(exact.size());
    double scale = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (i % 32 == 0) scale = std::exp(3 * normal(random));
      exact[i] = scale * normal(random);
      sum[i] = static_cast<float>(exact[i] + scale * normal(random));
    }
    const ErrorSums sums = sums_of(sum, exact, 32);
    const TrialError trial = trial_error({&sums, 1});
    const std::vector<ParameterShape> shapes = {{"a", exact.size()}};
    const MeanError mean = mean_error({&trial, 1}, shapes);
    within += std::abs(mean.slope - 1) <= mean.slope_ci ? 1 : 0;
  }
  EXPECT_GE(within, 372);  // 93 %
}

TEST(QualityError, HasNoIntervalOfTheSlopeOfOneBlock) {
  EXPECT_TRUE(std::isnan(trial_of({3, 5}, {3, 4}).slope_variance));
}

TEST(QualityError, EstimatesTheConfidenceIntervalOfTheErrorFromTrials) {
  const std::vector<TrialError> trials = {trial_of({2}, {1}), trial_of({4}, {1})};  // 1 and 9
  const std::vector<ParameterShape> shapes = {{"a", 1}};
  const MeanError mean = mean_error(trials, shapes);
  EXPECT_DOUBLE_EQ(mean.vnmse, 5);
  EXPECT_NEAR(mean.vnmse_ci, 12.71 * 4, 1e-9);  // Student's t times the standard error of the mean
}

}  // namespace
}  // namespace nf::cli
