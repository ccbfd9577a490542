#include "collective/chunk_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>
#include <utility>

namespace nf {
namespace {

using testing::ElementsAre;

bool is_send(const Step& step) {
  return step.kind == StepKind::kReduceSend || step.kind == StepKind::kGatherSend;
}

bool is_gather(const Step& step) {
  return step.kind == StepKind::kGatherSend || step.kind == StepKind::kGatherReceive;
}

std::set<std::uint32_t> peers_of(const Schedule& schedule) {
  std::set<std::uint32_t> peers;
  for (const Step& step : schedule.steps) peers.insert(step.peer);
  return peers;
}

std::uint32_t rounds_of(const std::vector<Edge>& edges) {
  return edges.empty() ? 0 : edges.back().round + 1;
}

TEST(Ring, SendsToNeighboursOnly) {
  for (const Schedule& schedule : make_schedules(Topology::kRing, 9)) {
    for (const Step& step : schedule.steps) {
      EXPECT_EQ(step.peer, (schedule.rank + (is_send(step) ? 1 : 8)) % 9);
    }
  }
}

// A level reduces k holders to ceil(k / 2), so ceil(log2 n) levels leave one.
TEST(Tree, HasLogarithmicDepth) {
  for (std::uint32_t ranks = 1; ranks <= 64; ++ranks) {
    const auto depth = static_cast<std::uint32_t>(std::bit_width(ranks - 1));
    for (std::uint32_t chunk = 0; chunk < ranks; ++chunk) {
      const ChunkPath path = chunk_path(Topology::kTree, ranks, chunk);
      EXPECT_EQ(rounds_of(path.reduce), depth);
      EXPECT_EQ(rounds_of(path.gather), depth);
    }
  }
  EXPECT_EQ(rounds_of(chunk_path(Topology::kTree, 8192, 0).reduce), 13u);
}

TEST(Tree, IsAButterflyForAPowerOfTwo) {
  const ChunkPath path = chunk_path(Topology::kTree, 8, 0);
  EXPECT_EQ(path.owner, 7u);
  EXPECT_THAT(path.reduce,
              ElementsAre(Edge{0, 0, 1, 1}, Edge{0, 2, 3, 1}, Edge{0, 4, 5, 1}, Edge{0, 6, 7, 1},
                          Edge{1, 1, 3, 2}, Edge{1, 5, 7, 2}, Edge{2, 3, 7, 4}));
  EXPECT_THAT(path.gather,
              ElementsAre(Edge{0, 7, 3, 8}, Edge{1, 7, 5, 8}, Edge{1, 3, 1, 8}, Edge{2, 7, 6, 8},
                          Edge{2, 5, 4, 8}, Edge{2, 3, 2, 8}, Edge{2, 1, 0, 8}));
}

TEST(Tree, KeepsAnUnpairedRankForTheNextLevel) {
  const ChunkPath path = chunk_path(Topology::kTree, 7, 2);  // position p is rank p + 2
  EXPECT_EQ(path.owner, 1u);
  EXPECT_THAT(path.reduce, ElementsAre(Edge{0, 2, 3, 1}, Edge{0, 4, 5, 1}, Edge{0, 6, 0, 1},
                                       Edge{1, 3, 5, 2}, Edge{1, 0, 1, 2}, Edge{2, 5, 1, 4}));
}

TEST(HalvingDoubling, ExchangesWithLogarithmicallyManyPartners) {
  const ChunkPath path = chunk_path(Topology::kHalvingDoubling, 8, 5);
  EXPECT_EQ(path.owner, 5u);
  EXPECT_THAT(path.reduce,
              ElementsAre(Edge{0, 0, 4, 1}, Edge{0, 1, 5, 1}, Edge{0, 2, 6, 1}, Edge{0, 3, 7, 1},
                          Edge{1, 6, 4, 2}, Edge{1, 7, 5, 2}, Edge{2, 4, 5, 4}));
  for (const std::uint32_t ranks : {2u, 4u, 8u, 64u}) {
    for (const Schedule& schedule : make_schedules(Topology::kHalvingDoubling, ranks)) {
      EXPECT_EQ(schedule.chunks, ranks);
      EXPECT_EQ(schedule.steps.size(), 4 * (ranks - 1));
      EXPECT_EQ(peers_of(schedule).size(), static_cast<std::size_t>(std::countr_zero(ranks)));
    }
  }
}

TEST(HalvingDoubling, FoldsTheRanksBeyondAPowerOfTwo) {
  EXPECT_EQ(chunk_count(Topology::kHalvingDoubling, 7), 4u);
  const Schedule folded = make_schedule(Topology::kHalvingDoubling, 7, 5);
  EXPECT_EQ(to_string(folded),
            "round 0  send   chunk 0 to 1    sum of 1\n"
            "round 0  send   chunk 1 to 1    sum of 1\n"
            "round 0  send   chunk 2 to 1    sum of 1\n"
            "round 0  send   chunk 3 to 1    sum of 1\n"
            "round 2  store  chunk 0 from 1  sum of 7\n"
            "round 2  store  chunk 1 from 1  sum of 7\n"
            "round 2  store  chunk 2 from 1  sum of 7\n"
            "round 2  store  chunk 3 from 1  sum of 7\n");
  // Rank 3 has no partner beyond the power of two, so it first sends only its own values.
  const ChunkPath path = chunk_path(Topology::kHalvingDoubling, 7, 0);
  EXPECT_THAT(path.reduce, ElementsAre(Edge{0, 4, 0, 1}, Edge{0, 5, 1, 1}, Edge{0, 6, 2, 1},
                                       Edge{1, 2, 0, 2}, Edge{1, 3, 1, 1}, Edge{2, 1, 0, 3}));
}

TEST(Direct, SendsToADifferentOwnerInEveryRound) {
  for (const std::uint32_t ranks : {2u, 5u, 8u}) {
    std::map<std::pair<bool, std::uint32_t>, std::set<std::uint32_t>> receivers;
    for (const Schedule& schedule : make_schedules(Topology::kDirect, ranks)) {
      for (const Step& step : schedule.steps) {
        if (!is_send(step)) continue;
        EXPECT_TRUE(receivers[std::pair(is_gather(step), step.round)].insert(step.peer).second);
      }
    }
    EXPECT_EQ(receivers.size(), 2 * (ranks - 1));
    for (const auto& [round, peers] : receivers) EXPECT_EQ(peers.size(), ranks);
  }
}

TEST(Direct, ForwardsNothing) {
  const ChunkPath path = chunk_path(Topology::kDirect, 4, 1);
  EXPECT_EQ(path.owner, 1u);
  EXPECT_THAT(path.reduce, ElementsAre(Edge{0, 0, 1, 1}, Edge{1, 3, 1, 1}, Edge{2, 2, 1, 1}));
  EXPECT_THAT(path.gather, ElementsAre(Edge{0, 1, 2, 4}, Edge{1, 1, 3, 4}, Edge{2, 1, 0, 4}));
}

TEST(Endpoint, AddsInRankOrder) {
  EXPECT_EQ(chunk_count(Topology::kEndpoint, 4), 1u);
  const ChunkPath path = chunk_path(Topology::kEndpoint, 4, 0);
  EXPECT_EQ(path.owner, 0u);
  EXPECT_THAT(path.reduce, ElementsAre(Edge{0, 1, 0, 1}, Edge{1, 2, 0, 1}, Edge{2, 3, 0, 1}));
  EXPECT_THAT(path.gather, ElementsAre(Edge{0, 0, 1, 4}, Edge{1, 0, 2, 4}, Edge{2, 0, 3, 4}));
}

}  // namespace
}  // namespace nf
