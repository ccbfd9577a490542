// Compares the conversions with the definition of the formats: sign, exponent, mantissa and bias;
// the nearest value is found by search.
#include "base/float16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "support/generator.h"

namespace nf {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Format {
  int exponent_bits;
  int mantissa_bits;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
  std::uint16_t nan;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  unsigned infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }

  // The value of 16 bits, by definition.
  double value_of(unsigned bits) const {
    const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
    const int exponent = static_cast<int>(bits & 0x7fff) >> mantissa_bits;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if ((bits & 0x7fff) > infinity()) return std::numeric_limits<double>::quiet_NaN();
    if ((bits & 0x7fff) == infinity()) return sign * kInfinity;
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    return sign * std::ldexp((1u << mantissa_bits) | mantissa, exponent - bias() - mantissa_bits);
  }

  // The bits of the nearest value, ties to even. Overflows as if the exponent range continued.
  unsigned nearest(float x) const {
    const unsigned sign = std::signbit(x) ? 0x8000 : 0;
    const double magnitude = std::abs(static_cast<double>(x));
    unsigned low = 0;
    unsigned high = infinity();  // value_of(low) <= magnitude < value_of(high)
    if (magnitude == kInfinity) return sign | infinity();
    while (high - low > 1) {
      const unsigned middle = (low + high) / 2;
      (value_of(middle) <= magnitude ? low : high) = middle;
    }
    // Infinity counts as one step above the largest finite value.
    const double above =
        high == infinity() ? 2 * value_of(low) - value_of(low - 1) : value_of(high);
    const double down = magnitude - value_of(low);
    const double up = above - magnitude;
    if (down != up) return sign | (down < up ? low : high);
    return sign | (low % 2 == 0 ? low : high);
  }
};

constexpr Format kBfloat16{8, 7, bfloat16_to_float, float_to_bfloat16, kBfloat16Nan};
constexpr Format kFloat16{5, 10, float16_to_float, float_to_float16, kFloat16Nan};

class EveryHalfFormat : public testing::TestWithParam<Format> {};

INSTANTIATE_TEST_SUITE_P(Formats, EveryHalfFormat, testing::Values(kBfloat16, kFloat16),
                         [](const auto& param) {
                           return param.param.mantissa_bits == 7 ? "bf16" : "fp16";
                         });

TEST_P(EveryHalfFormat, WidensEveryValueExactly) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float wide = GetParam().widen(static_cast<std::uint16_t>(bits));
    const double expected = GetParam().value_of(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(wide), expected) << bits;
      ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0) << bits;
    }
  }
}

TEST_P(EveryHalfFormat, NarrowsEveryValueToItself) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float wide = GetParam().widen(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(GetParam().narrow(wide), std::isnan(wide) ? GetParam().nan : bits);
  }
}

TEST_P(EveryHalfFormat, RoundsToTheNearestAndTiesToEven) {
  const auto check = [](float x) {
    ASSERT_EQ(GetParam().narrow(x), GetParam().nearest(x)) << std::hexfloat << x;
  };
  // Around every value and every tie between two values.
  for (unsigned bits = 0; bits < GetParam().infinity(); ++bits) {
    const float here = GetParam().widen(static_cast<std::uint16_t>(bits));
    const float next = GetParam().widen(static_cast<std::uint16_t>(bits + 1));
    if (!std::isfinite(next)) continue;
    const float tie = here + (next - here) / 2;
    for (const float x : {here, tie, next}) {
      for (const float y : {std::nextafter(x, -1e38f), x, std::nextafter(x, 1e38f)}) {
        check(y);
        check(-y);
      }
    }
  }
  test::Generator random(1);
  for (int i = 0; i < 100000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()));
    if (!std::isnan(x)) check(x);
  }
}

TEST_P(EveryHalfFormat, OverflowsToInfinityHalfAStepAboveTheMaximum) {
  const float max = GetParam().widen(static_cast<std::uint16_t>(GetParam().infinity() - 1));
  const float half_step =
      (max - GetParam().widen(static_cast<std::uint16_t>(GetParam().infinity() - 2))) / 2;
  EXPECT_EQ(GetParam().narrow(std::nextafter(max + half_step, 0.0f)), GetParam().infinity() - 1);
  EXPECT_EQ(GetParam().narrow(max + half_step), GetParam().infinity());
  EXPECT_EQ(GetParam().narrow(-(max + half_step)), GetParam().infinity() | 0x8000);
}

TEST_P(EveryHalfFormat, HasASingleNan) {
  for (const std::uint32_t bits :
       {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    EXPECT_EQ(GetParam().narrow(std::bit_cast<float>(bits)), GetParam().nan);
  }
}

TEST(Bfloat16Up, RoundsUp) {
  test::Generator random(2);
  for (int i = 0; i < 100000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random.bits()) % 0x7f000000u);
    const std::uint16_t up = float_to_bfloat16_up(x);
    ASSERT_GE(bfloat16_to_float(up), x);
    if (up > 0) {
      ASSERT_LT(bfloat16_to_float(static_cast<std::uint16_t>(up - 1)), x);
    }
  }
}

TEST(MagnitudeBits, OrderLikeMagnitudes) {
  EXPECT_EQ(magnitude_bits(-0.0f), 0u);
  EXPECT_EQ(magnitude_bits(-1.0f), magnitude_bits(1.0f));
  EXPECT_LT(magnitude_bits(1.0f), magnitude_bits(-1.5f));
  EXPECT_LT(magnitude_bits(3e38f), magnitude_bits(-std::numeric_limits<float>::infinity()));
  EXPECT_LT(magnitude_bits(std::numeric_limits<float>::infinity()),
            magnitude_bits(std::numeric_limits<float>::quiet_NaN()));
}

}  // namespace
}  // namespace nf
