#include "codec/hop_budgets.h"

#include <gtest/gtest.h>

#include <cmath>

#include "collective/schedule.h"

namespace nf {
namespace {

constexpr double kMin = 2.5;
constexpr double kMax = 10;

double bits_of(const std::vector<HopBudget>& budgets, std::uint32_t contributions) {
  for (const HopBudget& budget : budgets) {
    if (contributions <= budget.max_contributions) return budget.bits;
  }
  ADD_FAILURE() << "no budget for " << contributions;
  return 0;
}

// The mean over all transfers of a chunk.
double mean_over(Topology topology, std::uint32_t ranks, double bits, bool gathers = true) {
  const auto budgets = hop_budgets({ranks, sum_shape(topology), gathers}, bits, kMin, kMax);
  const ChunkPath path = chunk_path(topology, ranks, 0);
  double sum = 0;
  for (const Edge& edge : path.reduce) sum += bits_of(budgets, edge.contributions);
  if (!gathers) return sum / static_cast<double>(path.reduce.size());
  for (const Edge& edge : path.gather) sum += bits_of(budgets, edge.contributions);
  return sum / static_cast<double>(path.reduce.size() + path.gather.size());
}

TEST(HopBudgets, CoverEveryMessageInAscendingOrder) {
  for (const SumShape shape : {SumShape::kChain, SumShape::kTree, SumShape::kStar}) {
    for (std::uint32_t ranks = 2; ranks <= 70; ++ranks) {
      const auto budgets = hop_budgets({ranks, shape}, 4, kMin, kMax);
      ASSERT_FALSE(budgets.empty());
      for (std::size_t i = 1; i < budgets.size(); ++i) {
        EXPECT_LT(budgets[i - 1].max_contributions, budgets[i].max_contributions);
      }
      EXPECT_EQ(budgets.back().max_contributions, ranks);
      EXPECT_GE(budgets.front().max_contributions, 1u);
    }
  }
}

TEST(HopBudgets, HaveTheRequestedMean) {
  for (const Topology topology : {Topology::kRing, Topology::kTree, Topology::kDirect}) {
    for (std::uint32_t ranks = 2; ranks <= 70; ++ranks) {
      for (const double bits : {2.5, 2.6, 4.0, 5.0, 8.0}) {
        SCOPED_TRACE(testing::Message() << to_string(topology) << " of " << ranks);
        for (const bool gathers : {true, false}) {
          EXPECT_LE(mean_over(topology, ranks, bits, gathers), bits);
          EXPECT_GT(mean_over(topology, ranks, bits, gathers), bits - 0.005);
        }
      }
    }
  }
}

TEST(HopBudgets, StayWithinTheirLimits) {
  for (const SumShape shape : {SumShape::kChain, SumShape::kTree, SumShape::kStar}) {
    for (const double bits : {kMin, 3.0, 8.0}) {
      for (const HopBudget& budget : hop_budgets({64, shape}, bits, kMin, kMax)) {
        EXPECT_GE(budget.bits, kMin - 1.0 / 256);
        EXPECT_LE(budget.bits, kMax);
      }
    }
  }
}

TEST(HopBudgets, GrowWithTheSum) {
  const auto chain = hop_budgets({8, SumShape::kChain}, 4, kMin, kMax);
  EXPECT_LT(bits_of(chain, 1), bits_of(chain, 2));
  EXPECT_LT(bits_of(chain, 3), bits_of(chain, 4));
  // Seven copies of the finished sum cost more than a partial sum of nearly the same energy.
  EXPECT_LT(bits_of(chain, 8), bits_of(chain, 7));
  const auto star = hop_budgets({8, SumShape::kStar}, 4, kMin, kMax);
  EXPECT_LT(bits_of(star, 1), bits_of(star, 8));
}

TEST(HopBudgets, AreEmptyForOneRank) {
  EXPECT_TRUE(hop_budgets({1, SumShape::kChain}, 4, kMin, kMax).empty());
}

}  // namespace
}  // namespace nf
