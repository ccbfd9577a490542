#include "nf/support/gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nf::cli {
namespace {

constexpr std::size_t kSuperGroups = 8192;
constexpr std::size_t kSuperGroup = GradientMixture::kSuperGroup;

std::vector<float> gradient(GradientMixture mixture, std::uint32_t rank, std::size_t super_groups,
                            std::uint64_t first_super_group = 0) {
  std::vector<float> values(super_groups * kSuperGroup);
  mixture.fill(rank, first_super_group * kSuperGroup, values);
  return values;
}

// The L2 norm of each super-group.
std::vector<double> norms(const std::vector<float>& values) {
  std::vector<double> norms;
  for (std::size_t at = 0; at < values.size(); at += kSuperGroup) {
    double energy = 0;
    for (std::size_t i = at; i < at + kSuperGroup; ++i) energy += double{values[i]} * values[i];
    norms.push_back(std::sqrt(energy));
  }
  return norms;
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

TEST(GradientMixture, GeneratesTheSameValuesOnEveryPlatform) {
  const std::vector<float> values = gradient({.seed = 1}, 0, 4);
  EXPECT_EQ(values[0], -0x1.93467cp-11f);
  EXPECT_EQ(values[1], 0x1.35621ap-11f);
  EXPECT_EQ(values[300], -0x1.e4fce6p-10f);
  EXPECT_EQ(values[1023], -0x1.1b41c6p-15f);
}

TEST(GradientMixture, GeneratesTheSameValuesFromAnyOffset) {
  const GradientMixture mixture{.seed = 7};
  const std::vector<float> whole = gradient(mixture, 3, 5);
  const std::vector<float> tail = gradient(mixture, 3, 2, 3);
  EXPECT_EQ(tail, std::vector<float>(whole.end() - 2 * kSuperGroup, whole.end()));
  std::vector<float> part(kSuperGroup + 17);
  mixture.fill(3, 0, part);
  EXPECT_EQ(part, std::vector<float>(whole.begin(), whole.begin() + kSuperGroup + 17));
  mixture.fill(3, 200, part);
  EXPECT_EQ(part, std::vector<float>(whole.begin() + 200, whole.begin() + 217 + kSuperGroup));
}

TEST(GradientMixture, GeneratesTheSameValuesFromACachedCommonPart) {
  for (const double correlation : {0.0, 0.5, 1.0}) {
    const GradientMixture mixture{.seed = 8, .correlation = correlation};
    const CommonGradients common(mixture, 3 * kSuperGroup + 40);
    for (const std::size_t first : {std::size_t{0}, std::size_t{100}, 2 * kSuperGroup - 32}) {
      std::vector<float> expected(3 * kSuperGroup + 40 - first);
      std::vector<float> values(expected.size());
      mixture.fill(2, first, expected);
      common.fill(2, first, values);
      EXPECT_EQ(values, expected);
    }
  }
}

TEST(GradientMixture, HasThePublishedNorms) {
  std::vector<double> logs;
  for (const double norm : norms(gradient({.seed = 2}, 0, kSuperGroups))) {
    logs.push_back(std::log(norm));
  }
  // Mean and variance of the mixture of the two log-normal distributions.
  const double mean = 0.79 * -3.99 + 0.21 * -16.41;
  const double variance = 0.79 * (1.22 * 1.22 + std::pow(-3.99 - mean, 2)) +
                          0.21 * (4.63 * 4.63 + std::pow(-16.41 - mean, 2));
  const Moments found = moments(logs);
  EXPECT_NEAR(found.mean, mean, 5 * std::sqrt(variance / kSuperGroups));
  EXPECT_NEAR(found.deviation, std::sqrt(variance), 0.2);
}

TEST(GradientMixture, IsNormalWithinASuperGroup) {
  const std::vector<float> values = gradient({.seed = 3}, 1, 1024);
  const std::vector<double> super_group_norms = norms(values);
  double fourth = 0;
  std::size_t beyond_two = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double normal = values[i] / super_group_norms[i / kSuperGroup] * 16;
    fourth += std::pow(normal, 4);
    beyond_two += std::abs(normal) > 2 ? 1 : 0;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(fourth / count, 3, 0.06);
  EXPECT_NEAR(static_cast<double>(beyond_two) / count, 0.0455, 0.002);
}

TEST(GradientMixture, CorrelatesRanksAsRequested) {
  for (const double correlation : {0.0, 0.5, 1.0}) {
    const GradientMixture mixture{.seed = 4, .correlation = correlation};
    const std::vector<float> one = gradient(mixture, 0, 1024);
    const std::vector<float> other = gradient(mixture, 5, 1024);
    const std::vector<double> one_norms = norms(one);
    const std::vector<double> other_norms = norms(other);
    double product = 0;
    for (std::size_t i = 0; i < one.size(); ++i) {
      product += one[i] / one_norms[i / kSuperGroup] * (other[i] / other_norms[i / kSuperGroup]);
    }
    EXPECT_NEAR(product / 1024, correlation, 0.01);
  }
}

TEST(GradientMixture, IsStandardNormalIfGaussian) {
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
