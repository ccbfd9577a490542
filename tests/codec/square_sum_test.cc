#include "codec/square_sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "support/generator.h"

namespace nf {
namespace {

TEST(SquareSum, ReturnsTheSameBitsInEveryForm) {
  test::Generator random(1);
  for (const std::size_t count : {0u, 32u, 64u, 96u, 2048u, 100'000u}) {
    for (const auto& values : {random.normal(count + 1), random.hostile_finite(count + 1)}) {
      for (const std::size_t offset : {0u, 1u}) {
        const double expected = square_sum(Isa::kScalar)(values.data() + offset, count);
        for (const Isa isa : available_isas()) {
          const double actual = square_sum(isa)(values.data() + offset, count);
          EXPECT_EQ(std::bit_cast<std::uint64_t>(actual), std::bit_cast<std::uint64_t>(expected))
              << to_string(isa) << " of " << count;
        }
      }
    }
  }
}

TEST(SquareSum, AddsInTheSpecifiedOrder) {
  // A single 1 is lost when it is added to the 2^60 in lane 1, a sum of 256 is not.
  std::vector<float> values(kSquareLanes * 300, 0.0f);
  values[1] = 0x1p30f;
  for (std::size_t i = 1; i <= 256; ++i) values[i * kSquareLanes + 17] = 1.0f;
  values[300 * kSquareLanes - 31] = 1.0f;  // lane 1, lost
  for (const Isa isa : available_isas()) {
    EXPECT_EQ(square_sum(isa)(values.data(), values.size()), 0x1p60 + 256);
  }
}

TEST(SquareSum, IsFiniteIfAndOnlyIfAllValuesAre) {
  for (const Isa isa : available_isas()) {
    std::vector<float> values(kSquareLanes * 8, std::numeric_limits<float>::max());
    EXPECT_TRUE(std::isfinite(square_sum(isa)(values.data(), values.size())));
    for (const float bad :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN()}) {
      values[77] = bad;
      EXPECT_FALSE(std::isfinite(square_sum(isa)(values.data(), values.size())));
    }
  }
}

}  // namespace
}  // namespace nf
