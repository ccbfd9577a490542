#include "collective/dissemination.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace nf {
namespace {

std::vector<std::uint32_t> rank_counts() {
  std::vector<std::uint32_t> counts;
  for (std::uint32_t ranks = 1; ranks <= 70; ++ranks) counts.push_back(ranks);
  counts.insert(counts.end(), {100, 127, 128, 129, 255, 256, 257});
  return counts;
}

// Moves the names of the sources along the hops; a rank has one item per offset.
TEST(Dissemination, ScattersTheItemsOfAllRanksToTheirReceivers) {
  for (const std::uint32_t ranks : rank_counts()) {
    const Dissemination pattern(ranks);
    std::vector<std::vector<std::uint32_t>> sources(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) sources[rank].assign(ranks, rank);
    std::uint64_t moves = 0;
    for (const Dissemination::Hop& hop : pattern.hops()) {
      auto next = sources;
      for (std::uint32_t sender = 0; sender < ranks; ++sender) {
        pattern.for_each_item(hop, sender, [&](std::uint32_t offset, std::uint32_t receiver) {
          const std::uint32_t source = sources[sender][offset];
          ASSERT_EQ((source + offset) % ranks, receiver);
          next[(sender + hop.distance) % ranks][offset] = source;
          ++moves;
        });
      }
      sources = std::move(next);
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint32_t offset = 0; offset < ranks; ++offset) {
        ASSERT_EQ((sources[rank][offset] + offset) % ranks, rank) << offset << " among " << ranks;
      }
    }
    EXPECT_EQ(moves, ranks * pattern.scatter_hops());
  }
}

TEST(Dissemination, GathersTheItemsOfAllRanks) {
  for (const std::uint32_t ranks : rank_counts()) {
    const Dissemination pattern(ranks);
    std::uint32_t held = 1;  // the items of the rank itself and the next ones
    for (const Dissemination::Hop& hop : pattern.hops()) {
      ASSERT_LE(hop.count, hop.weight);
      ASSERT_EQ(hop.distance, held) << "among " << ranks;
      held += hop.count;
    }
    EXPECT_EQ(held, ranks);
  }
}

TEST(Dissemination, SendsOneMessageToARankAndUsesOnlyItemsOfEarlierRounds) {
  for (const std::uint32_t ranks : rank_counts()) {
    const Dissemination pattern(ranks);
    std::set<std::uint32_t> distances;
    std::uint32_t round = 0;
    std::uint32_t weight = 1;
    for (const Dissemination::Hop& hop : pattern.hops()) {
      EXPECT_TRUE(distances.insert(hop.distance).second);
      EXPECT_LT(hop.distance, ranks);
      EXPECT_EQ(hop.weight == weight, hop.round == round);
      EXPECT_GE(hop.weight, weight);
      round = hop.round;
      weight = hop.weight;
    }
  }
}

TEST(Dissemination, TakesOneRoundAmongFewRanksAndLogarithmicallyManyAmongManyRanks) {
  EXPECT_EQ(Dissemination(1).rounds(), 0u);
  EXPECT_TRUE(Dissemination(1).hops().empty());
  for (const std::uint32_t ranks : {2u, 3u, 31u, 32u}) {
    EXPECT_EQ(Dissemination(ranks).rounds(), 1u);
    EXPECT_EQ(Dissemination(ranks).hops().size(), ranks - 1);
    EXPECT_EQ(Dissemination(ranks).scatter_hops(), ranks - 1);
  }
  EXPECT_EQ(Dissemination(33).rounds(), 3u);
  EXPECT_EQ(Dissemination(64).rounds(), 3u);
  EXPECT_EQ(Dissemination(64).hops().size(), 9u);
  EXPECT_EQ(Dissemination(512).rounds(), 5u);
  EXPECT_EQ(Dissemination(512).hops().size(), 13u);
  // Three of four digits are not zero: an item takes 3 / 4 log4 64 hops on average.
  EXPECT_EQ(Dissemination(64).scatter_hops(), 64 * 3 * 3 / 4);
}

}  // namespace
}  // namespace nf
