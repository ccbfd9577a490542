#include "collective/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace nf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::uint32_t> rank_counts() {
  std::vector<std::uint32_t> counts(17);
  std::iota(counts.begin(), counts.end(), 1u);
  counts.insert(counts.end(), {32, 33, 64});
  return counts;
}

bool is_send(const Step& step) {
  return step.kind == StepKind::kReduceSend || step.kind == StepKind::kGatherSend;
}

bool is_gather(const Step& step) {
  return step.kind == StepKind::kGatherSend || step.kind == StepKind::kGatherReceive;
}

std::size_t count_of(const Schedule& schedule, StepKind kind) {
  return static_cast<std::size_t>(
      std::count_if(schedule.steps.begin(), schedule.steps.end(),
                    [&](const Step& step) { return step.kind == kind; }));
}

// How often the values of each rank are in a sum.
using Sum = std::vector<std::uint8_t>;

struct Message {
  Step sent;
  Sum sum;
};

// Simulates all ranks. Each executes its steps strictly in order; only receives block.
class Simulation {
 public:
  explicit Simulation(std::vector<Schedule> schedules)
      : schedules_(std::move(schedules)), next_(schedules_.size()) {
    for (std::uint32_t rank = 0; rank < schedules_.size(); ++rank) {
      Sum own(schedules_.size());
      own[rank] = 1;
      held_.emplace_back(schedules_[rank].chunks, own);
      sent_.emplace_back(schedules_[rank].chunks, false);
    }
  }

  // Runs until no rank can make progress.
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t rank = 0; rank < schedules_.size(); ++rank) {
        while (next_[rank] < schedules_[rank].steps.size() &&
               execute(rank, schedules_[rank].steps[next_[rank]])) {
          ++next_[rank];
          moved = true;
        }
      }
    }
  }

  bool finished(std::uint32_t rank) const { return next_[rank] == schedules_[rank].steps.size(); }
  const Sum& held(std::uint32_t rank, std::uint32_t chunk) const { return held_[rank][chunk]; }
  bool every_message_arrived() const {
    return std::all_of(links_.begin(), links_.end(),
                       [](const auto& link) { return link.second.empty(); });
  }

 private:
  // Returns false if a receive must wait.
  bool execute(std::uint32_t rank, const Step& step) {
    Sum& held = held_[rank][step.chunk];
    if (is_send(step)) {
      EXPECT_EQ(std::accumulate(held.begin(), held.end(), 0u), step.contributions);
      if (!is_gather(step)) {
        EXPECT_FALSE(sent_[rank][step.chunk]) << "values would count twice";
        sent_[rank][step.chunk] = true;
      }
      links_[{rank, step.peer}].push_back({step, held});
      return true;
    }
    std::deque<Message>& link = links_[{step.peer, rank}];
    if (link.empty()) return false;
    const Message message = std::move(link.front());
    link.pop_front();
    EXPECT_EQ(message.sent.chunk, step.chunk);
    EXPECT_EQ(message.sent.contributions, step.contributions);
    EXPECT_EQ(is_gather(message.sent), is_gather(step));
    if (is_gather(step)) {
      held = message.sum;
    } else {
      EXPECT_FALSE(sent_[rank][step.chunk]) << "what arrives would be lost";
      std::transform(held.begin(), held.end(), message.sum.begin(), held.begin(), std::plus<>());
    }
    return true;
  }

  std::vector<Schedule> schedules_;
  std::vector<std::size_t> next_;
  std::vector<std::vector<Sum>> held_;   // by rank and chunk
  std::vector<std::vector<bool>> sent_;  // whether a rank has sent its partial sum of a chunk
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<Message>> links_;
};

class EveryTopology : public testing::TestWithParam<Topology> {};

INSTANTIATE_TEST_SUITE_P(Schedule, EveryTopology,
                         testing::ValuesIn(flat_topologies().begin(), flat_topologies().end()),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST_P(EveryTopology, SumsEveryRankOnceOnAllRanks) {
  for (const std::uint32_t ranks : rank_counts()) {
    SCOPED_TRACE(ranks);
    const std::vector<Schedule> schedules = make_schedules(GetParam(), ranks);
    ASSERT_EQ(schedules.size(), ranks);
    Simulation simulation(schedules);
    simulation.run();
    EXPECT_TRUE(simulation.every_message_arrived());
    const Sum whole(ranks, 1);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      ASSERT_TRUE(simulation.finished(rank)) << "rank " << rank << " waits for ever";
      for (std::uint32_t chunk = 0; chunk < schedules[rank].chunks; ++chunk) {
        EXPECT_EQ(simulation.held(rank, chunk), whole) << "rank " << rank << ", chunk " << chunk;
      }
    }
  }
}

TEST_P(EveryTopology, LeavesTheSumAtTheOwnerAfterTheReduceHalf) {
  for (const std::uint32_t ranks : rank_counts()) {
    SCOPED_TRACE(ranks);
    std::vector<Schedule> schedules = make_schedules(GetParam(), ranks);
    for (Schedule& schedule : schedules) schedule = reduce_part(schedule);
    const std::vector<std::uint32_t> owners = schedules[0].owners;
    Simulation simulation(std::move(schedules));
    simulation.run();
    for (std::uint32_t chunk = 0; chunk < owners.size(); ++chunk) {
      EXPECT_EQ(simulation.held(owners[chunk], chunk), Sum(ranks, 1)) << "chunk " << chunk;
    }
  }
}

TEST_P(EveryTopology, OrdersMessagesOfAPairEquallyAtBothEnds) {
  using Identity = std::tuple<bool, std::uint32_t, std::uint32_t, std::uint32_t>;
  for (const std::uint32_t ranks : rank_counts()) {
    SCOPED_TRACE(ranks);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Identity>> sent, expected;
    for (const Schedule& schedule : make_schedules(GetParam(), ranks)) {
      for (const Step& step : schedule.steps) {
        auto& link =
            is_send(step) ? sent[{schedule.rank, step.peer}] : expected[{step.peer, schedule.rank}];
        link.emplace_back(is_gather(step), step.round, step.chunk, step.contributions);
      }
    }
    EXPECT_EQ(sent, expected);
    for (const auto& [pair, messages] : sent) {
      EXPECT_NE(pair.first, pair.second);
      EXPECT_TRUE(std::is_sorted(messages.begin(), messages.end()));
    }
  }
}

TEST_P(EveryTopology, ForwardsAChunkInALaterRound) {
  for (const std::uint32_t ranks : rank_counts()) {
    for (std::uint32_t chunk = 0; chunk < chunk_count(GetParam(), ranks); ++chunk) {
      SCOPED_TRACE(testing::Message() << "chunk " << chunk << " of " << ranks << " ranks");
      const ChunkPath path = chunk_path(GetParam(), ranks, chunk);
      ASSERT_LT(path.owner, ranks);
      for (const auto* edges : {&path.reduce, &path.gather}) {
        ASSERT_EQ(edges->size(), ranks - 1);
        if (!edges->empty()) {
          EXPECT_EQ(edges->front().round, 0u);
        }
        std::vector<std::uint32_t> ready(ranks, 0);  // the first round in which a rank may send
        std::set<std::pair<std::uint32_t, std::uint32_t>> senders, receivers;
        std::uint32_t round = 0;
        for (const Edge& edge : *edges) {
          EXPECT_GE(edge.round, round);
          EXPECT_LE(edge.round, round + 1) << "an empty round costs an exchange on a device";
          round = edge.round;
          EXPECT_GE(edge.round, ready[edge.from]);
          ready[edge.to] = edge.round + 1;
          EXPECT_TRUE(senders.emplace(edge.round, edge.from).second);
          EXPECT_TRUE(receivers.emplace(edge.round, edge.to).second);
        }
      }
    }
  }
}

TEST_P(EveryTopology, MakesTheSameScheduleAloneAndForAllRanks) {
  for (const std::uint32_t ranks : rank_counts()) {
    SCOPED_TRACE(ranks);
    const std::vector<Schedule> schedules = make_schedules(GetParam(), ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const Schedule schedule = make_schedule(GetParam(), ranks, rank);
      EXPECT_EQ(schedule.ranks, ranks);
      EXPECT_EQ(schedule.rank, rank);
      EXPECT_EQ(schedule.chunks, chunk_count(GetParam(), ranks));
      EXPECT_EQ(schedule.owners.size(), schedule.chunks);
      EXPECT_EQ(schedule.steps, schedules[rank].steps);
      EXPECT_EQ(schedule.owners, schedules[rank].owners);
      EXPECT_EQ(schedule.rank, schedules[rank].rank);
      EXPECT_EQ(schedule.ranks, schedules[rank].ranks);
      EXPECT_EQ(schedule.chunks, schedules[rank].chunks);
    }
  }
}

TEST_P(EveryTopology, ConsistsOfItsTwoHalves) {
  const Schedule whole = make_schedule(GetParam(), 7, 3);
  const Schedule first = reduce_part(whole);
  const Schedule second = gather_part(whole);
  std::vector<Step> steps = first.steps;
  steps.insert(steps.end(), second.steps.begin(), second.steps.end());
  EXPECT_EQ(steps, whole.steps);
  EXPECT_TRUE(std::none_of(first.steps.begin(), first.steps.end(), is_gather));
  EXPECT_TRUE(std::all_of(second.steps.begin(), second.steps.end(), is_gather));
  for (const Schedule& part : {first, second}) {
    EXPECT_EQ(part.ranks, 7u);
    EXPECT_EQ(part.rank, 3u);
    EXPECT_EQ(part.chunks, whole.chunks);
    EXPECT_EQ(part.owners, whole.owners);
  }
}

TEST_P(EveryTopology, HasNoStepsForOneRank) {
  const Schedule schedule = make_schedule(GetParam(), 1, 0);
  EXPECT_EQ(schedule.chunks, 1u);
  EXPECT_THAT(schedule.owners, ElementsAre(0));
  EXPECT_THAT(schedule.steps, IsEmpty());
  EXPECT_EQ(to_string(schedule), "");
}

// The topologies that distribute the work evenly.
class EvenTopology : public testing::TestWithParam<Topology> {};

INSTANTIATE_TEST_SUITE_P(Schedule, EvenTopology,
                         testing::Values(Topology::kRing, Topology::kTree, Topology::kDirect),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST_P(EvenTopology, GivesEveryRankOneChunkAndEquallyManyMessages) {
  for (const std::uint32_t ranks : rank_counts()) {
    SCOPED_TRACE(ranks);
    for (const Schedule& schedule : make_schedules(GetParam(), ranks)) {
      EXPECT_EQ(schedule.chunks, ranks);
      EXPECT_EQ(std::count(schedule.owners.begin(), schedule.owners.end(), schedule.rank), 1);
      for (const StepKind kind : {StepKind::kReduceSend, StepKind::kReduceReceive,
                                  StepKind::kGatherSend, StepKind::kGatherReceive}) {
        EXPECT_EQ(count_of(schedule, kind), ranks - 1);
      }
    }
  }
}

TEST(Schedule, PrintsOneLinePerStep) {
  EXPECT_EQ(to_string(make_schedule(Topology::kRing, 3, 0)),
            "round 0  send   chunk 2 to 1    sum of 1\n"
            "round 0  add    chunk 1 from 2  sum of 1\n"
            "round 1  send   chunk 1 to 1    sum of 2\n"
            "round 1  add    chunk 0 from 2  sum of 2\n"
            "round 0  share  chunk 0 to 1    sum of 3\n"
            "round 0  store  chunk 2 from 2  sum of 3\n"
            "round 1  share  chunk 2 to 1    sum of 3\n"
            "round 1  store  chunk 1 from 2  sum of 3\n");
}

TEST(Schedule, IsEmptyForHierarchical) {
  EXPECT_EQ(chunk_count(Topology::kHierarchical, 4), 0u);
  EXPECT_THAT(make_schedule(Topology::kHierarchical, 4, 1).steps, IsEmpty());
}

}  // namespace
}  // namespace nf
