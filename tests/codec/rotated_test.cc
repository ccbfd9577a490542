// Tests of rotated: its levels, its error for any distribution, and values that are hard to rotate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "codec/rotated/rotated_kernels.h"
#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"

namespace nf::test {
namespace {

using testing::HasSubstr;

double density(double x) {
  return std::isinf(x) ? 0 : std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
}
double tail(double x) { return std::erfc(x / std::numbers::sqrt2) / 2; }

// The cell of a level, from its thresholds.
struct Cell {
  double from;
  double to;

  Cell(unsigned width, std::size_t level)
      : from(rotated_thresholds_of(width)[level]),
        to(level + 1 < rotated_levels(width) ? rotated_thresholds_of(width)[level + 1]
                                             : std::numeric_limits<double>::infinity()) {}

  double mass() const { return tail(from) - tail(to); }
  double mean() const { return (density(from) - density(to)) / mass(); }
};

// The error of one encode, relative to the squared norm: D / (1 - D) for Lloyd-Max levels with the
// error D, whose decoded values have the energy 1 - D.
double error_of(unsigned width) {
  double energy = 0;
  for (std::size_t i = 0; i < rotated_levels(width); ++i) {
    const double level = rotated_levels_of(width)[i];
    energy += 2 * Cell(width, i).mass() * level * level;
  }
  return (1 - energy) / energy;
}

class EveryRotatedWidth : public testing::TestWithParam<unsigned> {
 protected:
  std::string spelling() const { return "rotated+width=" + std::to_string(GetParam()); }
  const std::unique_ptr<Codec> codec_ = make_for(available_isas().front(), spelling());
};

INSTANTIATE_TEST_SUITE_P(Rotated, EveryRotatedWidth,
                         testing::Range(kRotatedMinWidth, kRotatedMaxWidth + 1));

TEST_P(EveryRotatedWidth, HasTheMeansOfCellsAsLevels) {
  for (std::size_t i = 0; i < rotated_levels(GetParam()); ++i) {
    const double level = rotated_levels_of(GetParam())[i];
    EXPECT_NEAR(level, Cell(GetParam(), i).mean(), 2e-6 * level + 1e-7) << "level " << i;
  }
}

// The mean squared error over steps, relative to the squared norm.
double measured_error(const Codec& codec, const std::vector<float>& values, int steps) {
  const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, values)};
  CodecContext context(codec, by_rank);
  double error = 0;
  double norm = 0;
  for (int step = 0; step < steps; ++step) {
    context.step = static_cast<std::uint64_t>(step);
    const Message message = encode(codec, context.whole(), {0, 1}, by_rank[0].view());
    const std::vector<float> decoded = decode(codec, context.whole(), {0, 1}, message);
    for (std::size_t i = 0; i < values.size(); ++i) {
      error += std::pow(static_cast<double>(decoded[i]) - values[i], 2);
      norm += std::pow(static_cast<double>(values[i]), 2);
    }
  }
  return error / norm;
}

TEST_P(EveryRotatedWidth, HasTheSameErrorForAnyDistribution) {
  // The rounding of the unit adds up to a quarter of the square of its largest step.
  constexpr double kUnitError = 0x1p-16;
  const double expected = error_of(GetParam());
  Generator random(2);
  constexpr std::size_t kCount = 64 * kSuperGroup;
  for (int shape = 0; shape < 4; ++shape) {
    std::vector<float> values(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double x = random.normal();
      values[i] = static_cast<float>(shape == 0   ? x
                                     : shape == 1 ? std::pow(x, 5)
                                     : shape == 2 ? (x > 0 ? 1 : -1)
                                                  : (i % 64 == 0 ? 100 : 0.01) * x);
    }
    const double error = measured_error(*codec_, values, 8);
    EXPECT_GE(error, 0.95 * expected) << "shape " << shape;
    EXPECT_LE(error, 1.05 * expected + kUnitError) << "shape " << shape;
  }
}

TEST_P(EveryRotatedWidth, SendsNoStatistics) {
  EXPECT_EQ(codec_->statistics_size(1000), 0u);
  EXPECT_EQ(codec_->width_count(1000), 0u);
  const std::vector<float> values(1000, 1.0f);
  const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, values)};
  // Four units, zeros, and the codes of four whole super-groups.
  EXPECT_EQ(codec_->encoded_size(CodecContext(*codec_, by_rank).whole(), 1),
            16 + 4 * 32 * GetParam());
}

// One round of signs and transform decodes the smaller value half too large.
TEST(Rotated, IsNearlyUnbiasedInSuperGroupsOfTwoValues) {
  const std::unique_ptr<Codec> codec = make_for(available_isas().front(), "rotated+width=2");
  std::vector<float> values(kSuperGroup);
  values[3] = 1;
  values[77] = 3;
  const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, values)};
  CodecContext context(*codec, by_rank);
  constexpr int kSteps = 4000;
  double small = 0;
  double large = 0;
  for (int step = 0; step < kSteps; ++step) {
    context.step = static_cast<std::uint64_t>(step);
    const Message message = encode(*codec, context.whole(), {0, 1}, by_rank[0].view());
    const std::vector<float> decoded = decode(*codec, context.whole(), {0, 1}, message);
    small += decoded[3] / kSteps;
    large += decoded[77] / kSteps;
  }
  EXPECT_NEAR(small, 1, 0.04);
  EXPECT_NEAR(large, 3, 0.02);
}

TEST(Rotated, DecodesASingleValueOfASuperGroup) {
  for (const char* spelling : {"rotated+width=1", "rotated+width=2", "rotated:2"}) {
    const std::unique_ptr<Codec> codec = make_for(available_isas().front(), spelling);
    for (const float value : {1.0f, -3e20f, 1e-20f}) {
      std::vector<float> values(4 * kSuperGroup);
      values[700] = value;
      EXPECT_LT(measured_error(*codec, values, 16), 0.9) << spelling << ", " << value;
    }
  }
}

TEST(Rotated, StaysWithinItsBudget) {
  Generator random(4);
  for (const double budget : {1.25, 2.0, 3.0, 5.5, 8.0}) {
    const std::unique_ptr<Codec> codec =
        make_for(available_isas().front(), "rotated:" + std::to_string(budget));
    const std::vector<float> values = random.mixture(100003);
    const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, values)};
    const CodecContext context(*codec, by_rank);
    const std::size_t bytes = codec->encoded_size(context.whole(), 1) + context.statistics().size();
    EXPECT_LE(8.0 * static_cast<double>(bytes) / 100003, budget);
    EXPECT_GE(8.0 * static_cast<double>(bytes) / 100003, budget - 0.01);
  }
}

TEST(Rotated, LeavesSuperGroupsOutOnlyWithErrorFeedback) {
  Generator random(5);
  std::vector<float> values = random.normal(64 * kSuperGroup);
  for (std::size_t i = 0; i < values.size() / 2; ++i) values[i] *= 1e-3f;
  const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, values)};
  for (const bool feedback : {false, true}) {
    const std::unique_ptr<Codec> codec =
        make_for(available_isas().front(), feedback ? "rotated:1.5+ef" : "rotated:1.5");
    const CodecContext context(*codec, by_rank);
    EXPECT_EQ(std::ranges::count(context.widths(), 0) > 0, feedback);
  }
}

TEST(Rotated, RequiresEitherABudgetOrAWidth) {
  const auto error_of = [](const char* spelling) {
    const auto codec = make_codec(spelling);
    EXPECT_FALSE(codec.has_value()) << spelling;
    EXPECT_EQ(codec.status().code(), ErrorCode::kBadConfig) << spelling;
    return codec.status().message();
  };
  EXPECT_THAT(error_of("rotated"), HasSubstr("rotated:4"));
  EXPECT_THAT(error_of("rotated:4+width=4"), HasSubstr("budget"));
  EXPECT_THAT(error_of("rotated:1.2"), HasSubstr("1.25 to 8"));
  EXPECT_THAT(error_of("rotated:0.4+ef"), HasSubstr("0.5 to 8"));
  EXPECT_THAT(error_of("rotated:8.1"), HasSubstr("1.25 to 8"));
  EXPECT_THAT(error_of("rotated+width=9"), HasSubstr("width=9"));
  EXPECT_THAT(error_of("rotated+width=2.5"), HasSubstr("whole"));
}

}  // namespace
}  // namespace nf::test
