#include "runtime/route_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/allocations.h"
#include "support/generator.h"
#include "support/spellings.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::TypedValues;
using testing::HasSubstr;

double relative(const RouteSample& sample) { return sample.error_energy / sample.energy; }

RouteSample measure(const std::string& route, ConstValues values) {
  Expected<RouteError> error = RouteError::create(route);
  EXPECT_TRUE(error) << to_string(error.status());
  const Expected<RouteSample> sample = error->measure(values, {.seed = 1, .step = 2, .encoder = 3});
  EXPECT_TRUE(sample) << to_string(sample.status());
  return sample ? *sample : RouteSample{};
}

TEST(RouteError, ExistsForEveryCodecAndType) {
  test::Generator random(1);
  for (const std::string& spelling : test::codec_spellings()) {
    for (const DataType type : test::kAllTypes) {
      for (const std::size_t count : {1u, 300u, 40'961u}) {
        const TypedValues values(type, random.normal(count));
        const RouteSample sample = measure(spelling, values.view());
        EXPECT_GT(sample.energy, 0) << spelling;
        EXPECT_GE(sample.error_energy, 0) << spelling;
        EXPECT_LT(relative(sample), 2) << spelling << " of " << count << " " << to_string(type);
      }
    }
  }
}

TEST(RouteError, MatchesTheCodec) {
  test::Generator random(2);
  const std::vector<float> values = random.normal(40'960);
  EXPECT_EQ(relative(measure("fp32", values)), 0);
  // BF16 has 8 bits of mantissa, waterfill gains a factor of about four for every bit.
  EXPECT_NEAR(relative(measure("bf16", values)), 2.6e-6, 1e-6);
  const double four = relative(measure("waterfill:4", values));
  const double five = relative(measure("waterfill:5", values));
  EXPECT_LT(four, 0.05);
  EXPECT_NEAR(four / five, 4, 1);
  // A sign and a mean magnitude lose 1 - 2 / pi of a normal distribution.
  EXPECT_NEAR(relative(measure("g_binary", values)), 0.363, 0.01);
}

TEST(RouteError, IsDeterministicAndDrawsByItsKey) {
  test::Generator random(3);
  const std::vector<float> values = random.normal(5000);
  Expected<RouteError> error = RouteError::create("waterfill:3");
  const RouteError::Key key{.seed = 1, .step = 2, .parameter = 3, .encoder = 4};
  const double first = error->measure(values, key)->error_energy;
  EXPECT_EQ(error->measure(values, key)->error_energy, first);
  for (const RouteError::Key& other :
       {RouteError::Key{9, 2, 3, 4}, {1, 9, 3, 4}, {1, 2, 9, 4}, {1, 2, 3, 9}}) {
    EXPECT_NE(error->measure(values, other)->error_energy, first);
  }
}

TEST(RouteError, MeasuresNothingForUnsuitableSamples) {
  std::vector<float> values(600, 1.0f);
  EXPECT_EQ(measure("powersgd:2", values).energy, 0);
  EXPECT_EQ(measure("waterfill:4", std::vector<float>()).energy, 0);
  EXPECT_EQ(measure("waterfill:4", std::vector<float>(600, 0.0f)).energy, 0);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    values[5] = bad;
    EXPECT_EQ(measure("waterfill:4", values).energy, 0);
    EXPECT_EQ(measure("waterfill:4", values).error_energy, 0);
  }
}

TEST(RouteError, IsTotalIfTheRouteOverflows) {
  const std::vector<float> values(600, 1e6f);
  EXPECT_EQ(relative(measure("fp16", values)), 1);
}

TEST(RouteError, AllocatesOnlyOnFirstUse) {
  test::Generator random(5);
  for (const char* route : {"fp32", "bf16", "waterfill:4", "dynamiq:5", "mxfp6", "g_binary"}) {
    for (const DataType type : test::kAllTypes) {
      const TypedValues values(type, random.mixture(20'000));
      Expected<RouteError> error = RouteError::create(route);
      ASSERT_TRUE(error->measure(values.view(), {.step = 1}));
      const std::size_t before = test::counted_allocations();
      test::count_allocations(true);
      const Expected<RouteSample> again = error->measure(values.view(), {.step = 2});
      test::count_allocations(false);
      EXPECT_GT(again->energy, 0);
      EXPECT_EQ(test::counted_allocations(), before) << route;
    }
  }
}

TEST(RouteError, RejectsAnInvalidRoute) {
  EXPECT_THAT(RouteError::create("waterfil:4").status().message(), HasSubstr("did you mean"));
  EXPECT_THAT(RouteError::create("powersgd").status().message(), HasSubstr("number of terms"));
}

// Two matrices and a small vector in one region.
Binding make_binding() {
  Profile profile = static_profile("waterfill:4");
  profile.smallest_parameter = 1024;
  Expected<Binding> binding = Binding::make(
      std::move(profile), {{.name = "a", .module_type = "Linear", .count = 100'000, .rows = 100},
                           {.name = "b", .module_type = "Linear", .count = 100'000, .rows = 100},
                           {.name = "c", .module_type = "Linear", .count = 10}});
  EXPECT_TRUE(binding) << to_string(binding.status());
  return std::move(*binding);
}

TEST(RouteErrors, MeasureOnePiecePerRegionAndStep) {
  test::Generator random(4);
  const Binding binding = make_binding();
  const Sampler sampler(std::vector<std::size_t>{100'000, 100'000});
  RouteErrors errors(binding, 1, 0);
  std::vector<std::vector<float>> values = {random.normal(100'000), random.normal(100'000),
                                            random.normal(10)};
  for (std::uint64_t step = 0; step < 20; ++step) {
    const Piece piece = sampler.at(step);
    for (std::size_t p = 0; p < values.size(); ++p) {
      EXPECT_EQ(errors.sample(step, p, "fp32").count, 0);
      EXPECT_EQ(errors.sample(step, p, "waterfill:4"), p == piece.parameter ? piece : Piece{});
      if (p != piece.parameter) continue;
      const auto looked_at = std::span<const float>(values[p]).subspan(piece.first, piece.count);
      const RouteSample sample = errors.measure(step, p, "waterfill:4", looked_at);
      Expected<RouteError> alone = RouteError::create("waterfill:4");
      const Expected<RouteSample> expected =
          alone->measure(looked_at, {.seed = 1,
                                     .step = step,
                                     .parameter = parameter_key(binding.parameters()[p].name),
                                     .encoder = 0});
      EXPECT_EQ(sample.energy, expected->energy);
      EXPECT_EQ(sample.error_energy, expected->error_energy);
      EXPECT_GT(sample.energy, 0);
    }
  }
}

TEST(RouteErrors, MeasureNothingForAnInvalidRoute) {
  const Binding binding = make_binding();
  RouteErrors errors(binding, 1, 0);
  const std::vector<float> values(10, 1.0f);
  EXPECT_EQ(errors.measure(0, 0, "no such route", values).energy, 0);
}

}  // namespace
}  // namespace nf
