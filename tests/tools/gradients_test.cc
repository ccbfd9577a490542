#include "nf/support/gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nf::cli {
namespace {

constexpr std::size_t kGroups = 8192;
constexpr std::size_t kGroup = GradientMixture::kSuperGroup;

std::vector<float> gradient(GradientMixture mixture, std::uint32_t rank, std::size_t groups,
                            std::uint64_t first_group = 0) {
  std::vector<float> values(groups * kGroup);
  mixture.fill(rank, first_group * kGroup, values);
  return values;
}

// The magnitude M of each super-group: the root of the sum of its squares.
std::vector<double> magnitudes(const std::vector<float>& values) {
  std::vector<double> magnitudes;
  for (std::size_t at = 0; at < values.size(); at += kGroup) {
    double energy = 0;
    for (std::size_t i = at; i < at + kGroup; ++i) energy += double{values[i]} * values[i];
    magnitudes.push_back(std::sqrt(energy));
  }
  return magnitudes;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments(const std::vector<double>& values) {
  Moments result;
  for (const double value : values) result.mean += value;
  result.mean /= static_cast<double>(values.size());
  for (const double value : values) result.deviation += std::pow(value - result.mean, 2);
  result.deviation = std::sqrt(result.deviation / static_cast<double>(values.size()));
  return result;
}

TEST(GradientMixture, GivesTheSameValuesOnEveryMachine) {
  const std::vector<float> values = gradient({.seed = 1}, 0, 4);
  EXPECT_EQ(values[0], -0x1.93467cp-11f);
  EXPECT_EQ(values[1], 0x1.35621ap-11f);
  EXPECT_EQ(values[300], -0x1.e4fce6p-10f);
  EXPECT_EQ(values[1023], -0x1.1b41c6p-15f);
}

TEST(GradientMixture, GivesAValueOfItsIndexWhereverTheFillStarts) {
  const GradientMixture mixture{.seed = 7};
  const std::vector<float> whole = gradient(mixture, 3, 5);
  const std::vector<float> tail = gradient(mixture, 3, 2, 3);
  EXPECT_EQ(tail, std::vector<float>(whole.end() - 2 * kGroup, whole.end()));
  std::vector<float> part(kGroup + 17);
  mixture.fill(3, 0, part);
  EXPECT_EQ(part, std::vector<float>(whole.begin(), whole.begin() + kGroup + 17));
  mixture.fill(3, 200, part);
  EXPECT_EQ(part, std::vector<float>(whole.begin() + 200, whole.begin() + 217 + kGroup));
}

TEST(GradientMixture, GivesTheSameValuesByWayOfWhatRanksHaveInCommon) {
  for (const double correlation : {0.0, 0.5, 1.0}) {
    const GradientMixture mixture{.seed = 8, .correlation = correlation};
    const CommonGradients common(mixture, 3 * kGroup + 40);
    for (const std::size_t first : {std::size_t{0}, std::size_t{100}, 2 * kGroup - 32}) {
      std::vector<float> expected(3 * kGroup + 40 - first);
      std::vector<float> values(expected.size());
      mixture.fill(2, first, expected);
      common.fill(2, first, values);
      EXPECT_EQ(values, expected);
    }
  }
}

TEST(GradientMixture, HasThePublishedMagnitudes) {
  std::vector<double> logs;
  for (const double magnitude : magnitudes(gradient({.seed = 2}, 0, kGroups))) {
    logs.push_back(std::log(magnitude));
  }
  // Of the two laws together: the mean of means, and the deviation within and between.
  const double mean = 0.79 * -3.99 + 0.21 * -16.41;
  const double variance = 0.79 * (1.22 * 1.22 + std::pow(-3.99 - mean, 2)) +
                          0.21 * (4.63 * 4.63 + std::pow(-16.41 - mean, 2));
  const Moments found = moments(logs);
  EXPECT_NEAR(found.mean, mean, 5 * std::sqrt(variance / kGroups));
  EXPECT_NEAR(found.deviation, std::sqrt(variance), 0.2);
}

TEST(GradientMixture, IsNormalWithinASuperGroup) {
  const std::vector<float> values = gradient({.seed = 3}, 1, 1024);
  const std::vector<double> sizes = magnitudes(values);
  double fourth = 0;
  std::size_t beyond_two = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double normal = values[i] / sizes[i / kGroup] * 16;
    fourth += std::pow(normal, 4);
    beyond_two += std::abs(normal) > 2 ? 1 : 0;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(fourth / count, 3, 0.06);
  EXPECT_NEAR(static_cast<double>(beyond_two) / count, 0.0455, 0.002);
}

TEST(GradientMixture, CorrelatesRanksAsAsked) {
  for (const double correlation : {0.0, 0.5, 1.0}) {
    const GradientMixture mixture{.seed = 4, .correlation = correlation};
    const std::vector<float> one = gradient(mixture, 0, 1024);
    const std::vector<float> other = gradient(mixture, 5, 1024);
    const std::vector<double> one_sizes = magnitudes(one);
    const std::vector<double> other_sizes = magnitudes(other);
    double product = 0;
    for (std::size_t i = 0; i < one.size(); ++i) {
      product += one[i] / one_sizes[i / kGroup] * (other[i] / other_sizes[i / kGroup]);
    }
    EXPECT_NEAR(product / 1024, correlation, 0.01);
  }
}

TEST(GradientMixture, IsOneNormalLawWhereItIsGaussian) {
  const GradientMixture mixture{.seed = 5, .correlation = 0, .is_gaussian = true};
  std::vector<double> values;
  for (const float value : gradient(mixture, 2, 1024)) values.push_back(value);
  const Moments found = moments(values);
  EXPECT_NEAR(found.mean, 0, 0.01);
  EXPECT_NEAR(found.deviation, 1, 0.01);
}

TEST(GradientMixture, DiffersBySeed) {
  EXPECT_NE(gradient({.seed = 1}, 0, 1), gradient({.seed = 2}, 0, 1));
}

}  // namespace
}  // namespace nf::cli
