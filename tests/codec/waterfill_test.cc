// Tests of waterfill: at every width the error is d^2 / 12, for a step d, and unbiased.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/float16.h"
#include "codec/wire_bytes.h"
#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"
#include "support/generator.h"

namespace nf::test {
namespace {

using testing::Each;
using testing::Ge;
using testing::HasSubstr;

constexpr std::size_t kGroupValues = 16;
constexpr std::size_t kSuperGroupValues = 256;

class EveryWidth : public testing::TestWithParam<unsigned> {
 protected:
  const std::unique_ptr<Codec> codec_ =
      make_for(available_isas().front(), "waterfill+width=" + std::to_string(GetParam()));
};

INSTANTIATE_TEST_SUITE_P(Waterfill, EveryWidth, testing::Range(2u, 11u));

// The step of every group, computed from the units and scales in the message.
std::vector<double> steps_of(const Message& message, std::size_t count, unsigned width) {
  const std::size_t super_groups = (count + kSuperGroupValues - 1) / kSuperGroupValues;
  std::vector<double> steps;
  for (std::size_t g = 0; g * kGroupValues < count; ++g) {
    const std::size_t s = g * kGroupValues / kSuperGroupValues;
    const double unit = bfloat16_to_float(get_u16(message.data() + 2 * s));
    const int code = std::to_integer<int>(message[2 * super_groups + g / 2]) >> (g % 2 * 4) & 15;
    steps.push_back(unit * (code == 0 ? 0 : code + 4) * 2 / ((1 << width) - 1));
  }
  return steps;
}

TEST_P(EveryWidth, HasAnErrorOfATwelfthOfTheSquaredStep) {
  Generator random(1);
  constexpr std::size_t kCount = 1 << 17;
  const std::vector<float> values = random.normal(kCount);
  const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, values)};
  const CodecContext context(*codec_, by_rank);
  const Message message = encode(*codec_, context.whole(), {0, 1}, by_rank[0].view());
  const std::vector<float> decoded = decode(*codec_, context.whole(), {0, 1}, message);
  const std::vector<double> steps = steps_of(message, kCount, GetParam());
  double error = 0;
  double expected = 0;
  double largest = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double step = steps[i / kGroupValues];
    const double off = static_cast<double>(decoded[i]) - values[i];
    error += off * off;
    expected += step * step / 12;
    largest = std::max(largest, std::abs(off) / step);
  }
  EXPECT_NEAR(error / expected, 1, 0.02);
  EXPECT_LE(largest, 0.5 * 1.001) << "nothing is clamped, so no error exceeds half a step";
}

TEST_P(EveryWidth, HasTheSameErrorForAnyDistribution) {
  Generator random(2);
  constexpr std::size_t kCount = 1 << 15;
  for (int shape = 0; shape < 3; ++shape) {
    std::vector<float> values(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double spread = shape == 0   ? random.uniform() - 0.5
                            : shape == 1 ? std::pow(random.normal(), 3)
                                         : (random.below(2) != 0 ? 0.25 : -0.25);
      values[i] = static_cast<float>(spread) + (i % kGroupValues == 0 ? 1.0f : 0.0f);
    }
    const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, values)};
    const CodecContext context(*codec_, by_rank);
    const Message message = encode(*codec_, context.whole(), {0, 1}, by_rank[0].view());
    const std::vector<float> decoded = decode(*codec_, context.whole(), {0, 1}, message);
    const std::vector<double> steps = steps_of(message, kCount, GetParam());
    double error = 0;
    double expected = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      error += std::pow(static_cast<double>(decoded[i]) - values[i], 2);
      expected += std::pow(steps[i / kGroupValues], 2) / 12;
    }
    EXPECT_NEAR(error / expected, 1, 0.05) << "shape " << shape;
  }
}

TEST(Waterfill, UsesTheSmallestScalesThatClampNothing) {
  Generator random(3);
  const std::unique_ptr<Codec> codec = make_for(Isa::kScalar, "waterfill+width=4");
  const std::vector<float> values = random.mixture(5120);
  const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, values)};
  const CodecContext context(*codec, by_rank);
  const Message message = encode(*codec, context.whole(), {0, 1}, by_rank[0].view());
  const std::vector<double> steps = steps_of(message, values.size(), 4);
  for (std::size_t g = 0; g < steps.size(); ++g) {
    const std::size_t s = g * kGroupValues / kSuperGroupValues;
    const double mean = bfloat16_to_float(get_u16(context.statistics().data() + 4 * s));
    const double unit = bfloat16_to_float(get_u16(message.data() + 2 * s));
    double peak = 0;
    for (std::size_t j = 0; j < kGroupValues; ++j) {
      peak = std::max(peak, std::abs(values[g * kGroupValues + j] - mean));
    }
    const double reach = steps[g] * 15 / 2;
    EXPECT_GE(reach, peak * (1 - 1e-6)) << "group " << g;
    EXPECT_LT(reach - unit, std::max(peak, 4.5 * unit)) << "group " << g;
  }
}

TEST(Waterfill, StaysWithinItsBudget) {
  Generator random(4);
  for (const double budget : {2.5, 3.0, 4.0, 5.5, 8.0}) {
    const std::unique_ptr<Codec> codec =
        make_for(available_isas().front(), "waterfill:" + std::to_string(budget));
    const std::vector<float> values = random.mixture(100003);
    const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, values)};
    const CodecContext context(*codec, by_rank);
    const std::size_t bytes = codec->encoded_size(context.whole(), 1) + context.statistics().size();
    EXPECT_LE(8.0 * static_cast<double>(bytes) / 100003, budget);
    EXPECT_GE(8.0 * static_cast<double>(bytes) / 100003, budget - 0.01);
  }
}

// n / E of the small parameter overflows FP32, and one of its super-groups has no energy.
TEST(Waterfill, AssignsTheMinimumWidthToAParameterThatIsNearlyZero) {
  Generator random(5);
  std::vector<float> small(2 * kSuperGroupValues, 0.0f);
  for (std::size_t i = kSuperGroupValues; i < small.size(); ++i) {
    small[i] = i % 2 == 0 ? 1e-21f : -1e-21f;
  }
  std::vector<float> large = random.normal(64 * kSuperGroupValues);
  for (float& value : large) value *= 1e-3f;
  const std::vector<std::vector<TypedValues>> parameters = {
      {TypedValues(DataType::kFloat32, small)}, {TypedValues(DataType::kFloat32, large)}};
  for (const char* spelling : {"waterfill:4", "waterfill:4+alpha=0", "waterfill:4+alpha=1"}) {
    const std::unique_ptr<Codec> codec = make_for(available_isas().front(), spelling);
    const std::vector<CodecContext> contexts = CodecContext::for_parameters(*codec, parameters);
    EXPECT_THAT(contexts[0].widths(), Each(2)) << spelling;
    EXPECT_THAT(contexts[1].widths(), Each(Ge(3))) << spelling;
  }
}

// Embedding rows of words that are in no batch. Adam would move them by noise.
TEST(Waterfill, KeepsRowsOfZeros) {
  Generator random(6);
  std::vector<float> table = random.normal(64 * kSuperGroupValues);
  const auto is_zero = [](std::size_t i) {
    return i / kSuperGroupValues % 4 == 0 || i / kGroupValues % 2 == 0;
  };
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (i % 2 == 1) table[i] = -table[i - 1];  // super-groups have no mean
  }
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (is_zero(i)) table[i] = 0;
  }
  const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, table)};
  for (const char* spelling : {"waterfill:4", "waterfill:5", "waterfill+width=2"}) {
    const std::unique_ptr<Codec> codec = make_for(available_isas().front(), spelling);
    const CodecContext context(*codec, by_rank);
    const Message message = encode(*codec, context.whole(), {0, 1}, by_rank[0].view());
    const std::vector<float> decoded = decode(*codec, context.whole(), {0, 1}, message);
    std::size_t changed = 0;
    for (std::size_t i = 0; i < table.size(); ++i) changed += is_zero(i) && decoded[i] != 0;
    EXPECT_EQ(changed, 0u) << spelling;
    EXPECT_NE(decoded[kSuperGroupValues + kGroupValues], 0) << spelling;
  }
}

TEST(Waterfill, RequiresEitherABudgetOrAWidth) {
  const auto error_of = [](const char* spelling) {
    const auto codec = make_codec(spelling);
    EXPECT_FALSE(codec.has_value()) << spelling;
    EXPECT_EQ(codec.status().code(), ErrorCode::kBadConfig) << spelling;
    return codec.status().message();
  };
  EXPECT_THAT(error_of("waterfill"), HasSubstr("budget"));
  EXPECT_THAT(error_of("waterfill:4+width=4"), HasSubstr("budget"));
  EXPECT_THAT(error_of("waterfill:2.4"), HasSubstr("2.5 to 8"));
  EXPECT_THAT(error_of("waterfill:8.1"), HasSubstr("2.5 to 8"));
  EXPECT_THAT(error_of("waterfill+width=1"), HasSubstr("width=1"));
  EXPECT_THAT(error_of("waterfill+width=11"), HasSubstr("width=11"));
  EXPECT_THAT(error_of("waterfill+width=2.5"), HasSubstr("whole"));
  EXPECT_THAT(error_of("waterfill:4+alpha=0.25"), HasSubstr("alpha"));
  EXPECT_THAT(error_of("waterfill:4+widht=3"), HasSubstr("did you mean 'width'?"));
}

}  // namespace
}  // namespace nf::test
