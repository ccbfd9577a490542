#include "codec/water_level.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "codec/waterfill/width_ladder.h"
#include "support/generator.h"

namespace nf {
namespace {

using test::Generator;

constexpr unsigned kMin = 2;
constexpr unsigned kMax = 10;
constexpr std::size_t kOneBit = 4 * 8;  // bytes of one more bit for a whole super-group

double error_of(unsigned width) { return std::pow((1u << width) - 1, -2); }

// All widths from `min` to `max`, at four bytes per bit and pack, with the thresholds of their
// errors.
std::vector<Rung> ladder_of(unsigned min, unsigned max) {
  std::vector<Rung> ladder;
  for (unsigned b = min; b <= max; ++b) {
    const double gain = b == min ? 1 : error_of(b - 1) - error_of(b);
    ladder.push_back({.width = static_cast<std::uint8_t>(b),
                      .threshold = static_cast<int>(std::lround(-8 * std::log2(gain))),
                      .pack_bytes = static_cast<std::uint8_t>(4 * b)});
  }
  return ladder;
}

const std::vector<Rung> kLadder = ladder_of(kMin, kMax);

std::vector<WidthDemand> demands_of(Generator& random, std::size_t count) {
  std::vector<WidthDemand> demands(count);
  for (WidthDemand& demand : demands) {
    demand.need = static_cast<float>(std::exp(-4 + 3 * random.normal()));
    demand.packs = 8;
  }
  return demands;
}

std::size_t bytes_of(std::span<const WidthDemand> demands) {
  std::size_t bytes = 0;
  for (const WidthDemand& demand : demands) bytes += std::size_t{4} * demand.packs * demand.width;
  return bytes;
}

double error_of(std::span<const WidthDemand> demands) {
  double error = 0;
  for (const WidthDemand& demand : demands) error += demand.need * error_of(demand.width);
  return error;
}

// A lower bound of the error for all choices of widths within the budget (Lagrangian duality).
double min_error(std::span<const WidthDemand> demands, std::size_t code_bytes) {
  double best = 0;
  for (double level = 1e-10; level < 1; level *= 1.05) {
    double bound = -level * static_cast<double>(code_bytes);
    for (const WidthDemand& demand : demands) {
      double min = std::numeric_limits<double>::infinity();
      for (unsigned b = kMin; b <= kMax; ++b) {
        min = std::min(min, demand.need * error_of(b) + level * 4.0 * demand.packs * b);
      }
      bound += min;
    }
    best = std::max(best, bound);
  }
  return best;
}

TEST(FillToLevel, SpendsItsBudgetUpToOneBitAndNoMore) {
  for (int round = 0; round < test::rounds_of(200); ++round) {
    Generator random(1 + static_cast<std::uint64_t>(round));
    std::vector<WidthDemand> demands = demands_of(random, 1 + random.below(300));
    for (WidthDemand& demand : demands) {
      if (random.below(20) == 0) demand.packs = static_cast<std::uint8_t>(1 + random.below(8));
      if (random.below(20) == 0) demand.need = 0;
    }
    std::size_t packs = 0;
    for (const WidthDemand& demand : demands) packs += demand.packs;
    const std::size_t min = 4 * kMin * packs;
    const std::size_t max = 4 * kMax * packs;
    const std::size_t budget = min + random.below(max - min + 100);
    fill_to_level(demands, kLadder, budget);
    EXPECT_LE(bytes_of(demands), budget);
    if (budget < max) {
      EXPECT_LT(budget - bytes_of(demands), kOneBit) << demands.size() << " super-groups";
    } else {
      EXPECT_EQ(bytes_of(demands), max);
    }
    for (const WidthDemand& demand : demands) {
      EXPECT_GE(demand.width, kMin);
      EXPECT_LE(demand.width, kMax);
    }
  }
}

TEST(FillToLevel, AssignsTheMinimumWidthEvenIfThatExceedsTheBudget) {
  Generator random(2);
  std::vector<WidthDemand> demands = demands_of(random, 10);
  fill_to_level(demands, kLadder, 1);
  for (const WidthDemand& demand : demands) EXPECT_EQ(demand.width, kMin);
  fill_to_level({}, kLadder, 1);
}

TEST(FillToLevel, AssignsLargerWidthsToLargerNeeds) {
  Generator random(3);
  std::vector<WidthDemand> demands = demands_of(random, 2000);
  fill_to_level(demands, kLadder, demands.size() * 4 * kOneBit);
  std::sort(demands.begin(), demands.end(),
            [](const auto& a, const auto& b) { return a.need < b.need; });
  unsigned widest = 0;
  std::size_t below = 0;
  for (const WidthDemand& demand : demands) {
    // A bin spans at most a factor of 1.125; needs within a bin count as equal.
    for (; demands[below].need * 1.126f < demand.need; ++below) {
      widest = std::max<unsigned>(widest, demands[below].width);
    }
    EXPECT_GE(demand.width, widest) << demand.need;
  }
}

TEST(FillToLevel, IsWithinAPercentOfTheOptimum) {
  for (const double bits : {2.3, 3.0, 3.5, 4.0, 5.0, 6.5}) {
    Generator random(4);
    std::vector<WidthDemand> demands = demands_of(random, 1000);
    const auto budget =
        static_cast<std::size_t>(bits * static_cast<double>(kOneBit * demands.size()));
    fill_to_level(demands, kLadder, budget);
    EXPECT_LE(error_of(demands), 1.01 * min_error(demands, budget)) << bits << " bits";
  }
}

// If there is one super-group in every bin and one level uses the budget exactly, the widths follow
// from the thresholds at that level.
TEST(FillToLevel, SwitchesWidthsAtTheThresholds) {
  constexpr unsigned kAllBins = 256 * 8;
  for (const int level : {-40, 0, 300, 1000, 1700, 2000}) {
    std::vector<WidthDemand> demands(kAllBins);
    std::size_t budget = 0;
    std::vector<unsigned> expected(kAllBins);
    for (unsigned bin = 0; bin < kAllBins; ++bin) {
      demands[bin] = {.need = std::bit_cast<float>(bin << 20), .packs = 8};
      if (std::isnan(demands[bin].need)) demands[bin].need = std::numeric_limits<float>::infinity();
      expected[bin] = 1;
      // Infinity is the lowest of the bins that NaNs share with it.
      const auto effective = static_cast<int>(std::min(bin, 255u * 8));
      for (unsigned b = 1; b < 16; ++b) {
        const double threshold = -8 * std::log2(error_of(b) - error_of(b + 1));
        if (effective >= level + static_cast<int>(std::lround(threshold))) expected[bin] = b + 1;
      }
      budget += kOneBit * expected[bin];
    }
    fill_to_level(demands, ladder_of(1, 16), budget);
    for (unsigned bin = 0; bin < kAllBins; ++bin) {
      ASSERT_EQ(demands[bin].width, expected[bin]) << "bin " << bin << ", level " << level;
    }
  }
}

TEST(FillToLevel, TreatsNanAsTheLargestAndZeroAsTheSmallestNeed) {
  std::vector<WidthDemand> demands(3);
  demands[0] = {.need = 0, .packs = 8};
  demands[1] = {.need = std::numeric_limits<float>::quiet_NaN(), .packs = 8};
  demands[2] = {.need = 1, .packs = 8};
  fill_to_level(demands, kLadder, kOneBit * (2 + 10 + 5));
  EXPECT_EQ(demands[0].width, 2);
  EXPECT_EQ(demands[1].width, 10);
  EXPECT_EQ(demands[2].width, 5);
}

// The rest of the budget goes to the first super-groups, until one does not fit.
TEST(FillToLevel, IncludesTheFixedCostsOfASuperGroup) {
  const std::vector<Rung> ladder = {{.width = 0},
                                    {.width = 2, .threshold = 20, .pack_bytes = 9, .bytes = 2}};
  const std::size_t small = 1 * 9 + 2;
  const std::size_t whole = 8 * 9 + 2;
  std::vector<WidthDemand> demands(4, {.need = 1, .packs = 8});
  demands[0].packs = 1;
  fill_to_level(demands, ladder, small + 2 * whole);
  EXPECT_EQ(demands[1].width, 2);
  EXPECT_EQ(demands[2].width, 2);
  EXPECT_EQ(demands[3].width, 0);
  fill_to_level(demands, ladder, small + 2 * whole - 1);
  EXPECT_EQ(demands[0].width, 2);
  EXPECT_EQ(demands[1].width, 2);
  EXPECT_EQ(demands[2].width, 0);
}

// In a long chain, the noise of two bits raises the peaks of every later sum.
TEST(WidthLadder, AvoidsTwoBitsInLongChains) {
  const auto second = [](std::uint32_t ranks, SumShape shape) {
    const std::span<const Rung> ladder = waterfill_ladder({ranks, shape}, false);
    return ladder[1].threshold - ladder[2].threshold;
  };
  EXPECT_LT(second(64, SumShape::kChain), second(2, SumShape::kChain));
  EXPECT_LT(second(64, SumShape::kChain), second(64, SumShape::kStar));
}

TEST(WidthLadder, RisesInCostAndThreshold) {
  for (const bool zero : {false, true})
    for (const SumShape shape : {SumShape::kChain, SumShape::kTree, SumShape::kStar})
      for (const std::uint32_t ranks : {1u, 2u, 3u, 8u, 17u, 64u, 8192u}) {
        const std::span<const Rung> ladder = waterfill_ladder({ranks, shape}, zero);
        EXPECT_EQ(ladder.front().width, zero ? 0 : kMin);
        EXPECT_EQ(ladder.back().width, kMax);
        for (std::size_t r = 1; r < ladder.size(); ++r) {
          EXPECT_GT(ladder[r].pack_bytes, ladder[r - 1].pack_bytes);
          if (r > 1) {
            EXPECT_GE(ladder[r].threshold, ladder[r - 1].threshold);
          }
        }
      }
}

TEST(FillToLevel, IgnoresPreviousWidths) {
  Generator random(5);
  std::vector<WidthDemand> first = demands_of(random, 500);
  std::vector<WidthDemand> second = first;
  for (WidthDemand& demand : second) demand.width = 99;  // not an input
  fill_to_level(first, kLadder, 60000);
  fill_to_level(second, kLadder, 60000);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].width, second[i].width);
}

}  // namespace
}  // namespace nf
