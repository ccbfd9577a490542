// All forms of rms_units.h give the same bits, and the factors are the nearest powers of two.
#include "codec/rms_units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/float16.h"
#include "support/codec_cases.h"
#include "support/generator.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::same_bits;

// Squares over the whole range of BF16, with zeros and subnormals.
std::vector<std::uint16_t> squares_of(test::Generator& random, std::size_t count) {
  std::vector<std::uint16_t> squares(count);
  for (std::uint16_t& square : squares) square = static_cast<std::uint16_t>(random.below(0x7f80));
  return squares;
}

TEST(RmsUnits, AllFormsHaveTheSameBits) {
  const RmsUnits& reference = rms_units(Isa::kScalar);
  for (const Isa isa : available_isas()) {
    const RmsUnits& form = rms_units(isa);
    for (const std::size_t count : test::kCounts) {
      test::Generator random(count + 1);
      const std::vector<std::uint16_t> squares = squares_of(random, count);
      const std::vector<float> values = random.hostile_finite(count);
      const float expected = reference.sum(squares.data(), count);
      const float actual = form.sum(squares.data(), count);
      EXPECT_TRUE(same_bits(std::span(&actual, 1), std::span(&expected, 1))) << to_string(isa);
      for (const float floor : {kLeastSquare, 0x1p-20F, kMostSquare}) {
        for (const auto operation : {&RmsUnits::multiply, &RmsUnits::divide}) {
          std::vector<float> one = values;
          std::vector<float> other = values;
          (reference.*operation)(squares.data(), floor, count, one.data());
          (form.*operation)(squares.data(), floor, count, other.data());
          EXPECT_TRUE(same_bits(other, one)) << to_string(isa) << ", " << count;
        }
      }
      std::vector<std::uint16_t> one(count);
      std::vector<std::uint16_t> other(count);
      reference.update(values.data(), 0.3F, 0.05F, squares.data(), count, one.data());
      form.update(values.data(), 0.3F, 0.05F, squares.data(), count, other.data());
      EXPECT_EQ(other, one) << to_string(isa) << ", " << count;
    }
  }
}

TEST(RmsUnits, FactorsAreTheNearestPowersOfTwo) {
  for (std::uint32_t bits = 0; bits < 0x7f80; bits += 7) {
    const auto square = static_cast<std::uint16_t>(bits);
    float factor = 1;
    rms_units(Isa::kScalar).multiply(&square, kLeastSquare, 1, &factor);
    const double bounded = std::min(std::max(double{bfloat16_to_float(square)}, 0x1p-120), 0x1p120);
    const double ratio = double{factor} * std::sqrt(bounded);
    EXPECT_GT(ratio, std::sqrt(0.5) - 1e-12) << bits;
    EXPECT_LT(ratio, std::sqrt(2.0) + 1e-12) << bits;
    int exponent = 0;
    EXPECT_EQ(std::frexp(factor, &exponent), 0.5F) << bits;
    rms_units(Isa::kScalar).divide(&square, kLeastSquare, 1, &factor);
    EXPECT_EQ(factor, 1.0F) << bits;
  }
}

TEST(RmsUnits, UpdatesStayFinite) {
  const std::uint16_t none = 0;
  std::uint16_t square = 0;
  const float huge = std::numeric_limits<float>::max();
  for (const Isa isa : available_isas()) {
    rms_units(isa).update(&huge, 1, 0.05F, &none, 1, &square);
    EXPECT_EQ(bfloat16_to_float(square), kMostSquare);
  }
}

}  // namespace
}  // namespace nf
