#include "codec/waterfill/hop_budgets.h"

#include <gtest/gtest.h>

#include <cmath>

#include "collective/schedule.h"

namespace nf {
namespace {

constexpr double kLeast = 2.5;
constexpr double kMost = 10;

double bits_of(const std::vector<HopBudget>& budgets, std::uint32_t contributions) {
  for (const HopBudget& budget : budgets) {
    if (contributions <= budget.most_contributions) return budget.bits;
  }
  ADD_FAILURE() << "no budget for " << contributions;
  return 0;
}

// The mean over all transfers of a chunk.
double mean_over(Topology topology, std::uint32_t ranks, double bits) {
  const auto budgets = hop_budgets({ranks, sum_shape(topology)}, bits, kLeast, kMost);
  const ChunkPath path = chunk_path(topology, ranks, 0);
  double sum = 0;
  for (const Edge& edge : path.reduce) sum += bits_of(budgets, edge.contributions);
  for (const Edge& edge : path.gather) sum += bits_of(budgets, edge.contributions);
  return sum / static_cast<double>(path.reduce.size() + path.gather.size());
}

TEST(HopBudgets, CoverEveryMessageInRisingOrder) {
  for (const SumShape shape : {SumShape::kChain, SumShape::kTree, SumShape::kStar}) {
    for (std::uint32_t ranks = 2; ranks <= 70; ++ranks) {
      const auto budgets = hop_budgets({ranks, shape}, 4, kLeast, kMost);
      ASSERT_FALSE(budgets.empty());
      for (std::size_t i = 1; i < budgets.size(); ++i) {
        EXPECT_LT(budgets[i - 1].most_contributions, budgets[i].most_contributions);
      }
      EXPECT_EQ(budgets.back().most_contributions, ranks);
      EXPECT_GE(budgets.front().most_contributions, 1u);
    }
  }
}

TEST(HopBudgets, HaveTheMeanTheyWereGiven) {
  for (const Topology topology : {Topology::kRing, Topology::kTree, Topology::kDirect}) {
    for (std::uint32_t ranks = 2; ranks <= 70; ++ranks) {
      for (const double bits : {2.5, 2.6, 4.0, 5.0, 8.0}) {
        SCOPED_TRACE(testing::Message() << to_string(topology) << " of " << ranks);
        EXPECT_LE(mean_over(topology, ranks, bits), bits);
        EXPECT_GT(mean_over(topology, ranks, bits), bits - 0.005);
      }
    }
  }
}

TEST(HopBudgets, StayWithinTheirLimits) {
  for (const SumShape shape : {SumShape::kChain, SumShape::kTree, SumShape::kStar}) {
    for (const double bits : {kLeast, 3.0, 8.0}) {
      for (const HopBudget& budget : hop_budgets({64, shape}, bits, kLeast, kMost)) {
        EXPECT_GE(budget.bits, kLeast - 1.0 / 256);
        EXPECT_LE(budget.bits, kMost);
      }
    }
  }
}

TEST(HopBudgets, GrowWithTheSum) {
  const auto chain = hop_budgets({8, SumShape::kChain}, 4, kLeast, kMost);
  EXPECT_LT(bits_of(chain, 1), bits_of(chain, 2));
  EXPECT_LT(bits_of(chain, 3), bits_of(chain, 4));
  // Seven copies of the finished sum: dearer than a partial sum of nearly the same size.
  EXPECT_LT(bits_of(chain, 8), bits_of(chain, 7));
  const auto star = hop_budgets({8, SumShape::kStar}, 4, kLeast, kMost);
  EXPECT_LT(bits_of(star, 1), bits_of(star, 8));
}

TEST(HopBudgets, AreNoneForARankAlone) {
  EXPECT_TRUE(hop_budgets({1, SumShape::kChain}, 4, kLeast, kMost).empty());
}

}  // namespace
}  // namespace nf
