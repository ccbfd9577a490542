// The rounds of ranks match. Needs no device.
#include "cuda/collective/device_rounds.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace nf::cuda {
namespace {

using Message = std::pair<std::uint32_t, std::uint32_t>;  // chunk and contributions

std::vector<DeviceRounds> rounds_of(Collective collective, Topology topology, std::uint32_t ranks) {
  std::vector<DeviceRounds> rounds;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    Schedule schedule = make_schedule(topology, ranks, rank);
    if (collective == Collective::kReduceScatter) schedule = reduce_part(schedule);
    rounds.emplace_back(collective, topology, schedule, /*merges=*/false);
  }
  return rounds;
}

// Transports match the sends and receives between two ranks by their order alone.
void expect_matching_orders(Collective collective, Topology topology, std::uint32_t ranks) {
  SCOPED_TRACE(testing::Message() << to_string(collective) << " over " << to_string(topology)
                                  << ", " << ranks << " ranks");
  const std::vector<DeviceRounds> all = rounds_of(collective, topology, ranks);
  for (const DeviceRounds& one : all) {
    ASSERT_EQ(one.rounds.size(), all.front().rounds.size());
    EXPECT_EQ(one.reduce_rounds, all.front().reduce_rounds);
  }
  for (std::size_t round = 0; round < all.front().rounds.size(); ++round) {
    for (std::uint32_t from = 0; from < ranks; ++from) {
      for (std::uint32_t to = 0; to < ranks; ++to) {
        std::vector<Message> sent;
        std::vector<Message> received;
        for (const Step& step : all[from].rounds[round].sends) {
          if (step.peer == to) sent.emplace_back(step.chunk, step.contributions);
        }
        for (const auto& [step, index] : all[to].rounds[round].receives) {
          if (step.peer == from) received.emplace_back(step.chunk, step.contributions);
        }
        EXPECT_EQ(sent, received) << "round " << round << ", rank " << from << " to rank " << to;
      }
    }
  }
}

TEST(DeviceRounds, HaveTheSameOrderAtBothEnds) {
  for (const Topology topology : flat_topologies()) {
    for (const std::uint32_t ranks : {2u, 3u, 4u, 5u, 8u, 13u}) {
      expect_matching_orders(Collective::kAllReduce, topology, ranks);
      if (check_topology(Collective::kReduceScatter, topology).ok()) {
        expect_matching_orders(Collective::kReduceScatter, topology, ranks);
      }
    }
  }
}

// The parts of an exchange run their rounds together.
TEST(DeviceRounds, HaveTheSameExchangesWhetherMessagesMergeOrNot) {
  for (const Topology topology : flat_topologies()) {
    const Schedule schedule = make_schedule(topology, 5, 1);
    const DeviceRounds adds(Collective::kAllReduce, topology, schedule, false);
    const DeviceRounds merges(Collective::kAllReduce, topology, schedule, true);
    ASSERT_EQ(adds.rounds.size(), merges.rounds.size());
    EXPECT_EQ(adds.reduce_rounds, merges.reduce_rounds);
    for (std::size_t round = 0; round < adds.rounds.size(); ++round) {
      EXPECT_EQ(adds.rounds[round].sends, merges.rounds[round].sends);
    }
  }
}

}  // namespace
}  // namespace nf::cuda
