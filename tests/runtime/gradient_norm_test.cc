#include "runtime/gradient_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/generator.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::TypedValues;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// In long double, value by value.
long double energy_of(const std::vector<float>& values) {
  long double sum = 0;
  for (const float value : values) {
    if (std::isfinite(value)) sum += static_cast<long double>(value) * value;
  }
  return sum;
}

TEST(GradientNorm, IsTheSumOfSquares) {
  test::Generator random(1);
  for (const DataType type : test::kAllTypes) {
    for (const std::size_t count : {0u, 1u, 31u, 33u, 2047u, 2048u, 2049u, 100'003u}) {
      for (const std::size_t offset : {0u, 1u, 2u}) {
        const TypedValues values(type, random.mixture(count), offset);
        const GradientNorm norm = gradient_norm(values.view());
        const auto expected = static_cast<double>(energy_of(values.widened()));
        EXPECT_NEAR(norm.energy, expected, 1e-12 * expected)
            << to_string(type) << " " << count << " " << offset;
        EXPECT_EQ(norm.non_finite, 0u);
      }
    }
  }
}

TEST(GradientNorm, LeavesOutAndCountsWhatIsNotFinite) {
  test::Generator random(2);
  for (const DataType type : test::kAllTypes) {
    std::vector<float> values = random.normal(10'000);
    const float bad[] = {kNan, kInfinity, -kInfinity, kNan};
    const std::size_t places[] = {0, 4711, 4712, 9999};
    for (std::size_t i = 0; i < std::size(bad); ++i) values[places[i]] = bad[i];
    std::vector<float> zeroed = values;
    for (const std::size_t place : places) zeroed[place] = 0;
    const GradientNorm norm = gradient_norm(TypedValues(type, values).view());
    EXPECT_EQ(norm.non_finite, 4u);
    EXPECT_EQ(norm.energy, gradient_norm(TypedValues(type, zeroed).view()).energy);
  }
  const std::vector<float> all_bad(3000, kNan);
  EXPECT_EQ(gradient_norm(all_bad).non_finite, 3000u);
  EXPECT_EQ(gradient_norm(all_bad).energy, 0);
}

TEST(GradientNorm, HoldsTheGreatestAndTheLeast) {
  const std::vector<float> greatest(5000, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(gradient_norm(greatest).energy));
  EXPECT_EQ(gradient_norm(greatest).non_finite, 0u);
  const std::vector<float> least = {std::numeric_limits<float>::denorm_min()};
  EXPECT_EQ(gradient_norm(least).energy, 0x1p-298);
}

TEST(GradientNorm, DependsOnNothingButTheValues) {
  test::Generator random(3);
  const std::vector<float> values = random.mixture(70'001);
  const double energy = gradient_norm(values).energy;
  for (const std::size_t offset : {1u, 4u, 13u}) {
    const TypedValues elsewhere(DataType::kFloat32, values, offset);
    EXPECT_EQ(gradient_norm(elsewhere.view()).energy, energy);
  }
}

}  // namespace
}  // namespace nf
