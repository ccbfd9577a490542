// A job that resumes from a checkpoint at any step produces the same bits, given the same buckets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::FabricRank;
using test::on_all_ranks;
using Gradients = FabricRank::Gradients;

constexpr std::uint32_t kRanks = 3;
constexpr std::uint64_t kTroubled = 10;
constexpr std::uint64_t kFallback = kTroubled + 2;
constexpr std::uint64_t kProbation = kFallback + 3;
constexpr std::uint64_t kPhase = 22;
constexpr std::uint64_t kEnd = 28;

// The checkpoint of one rank, and the decision of its last step.
struct Saved {
  std::string state;
  std::vector<Fabric::Memory> memory;
  std::string decision;
};

struct Job {
  Collective collective = Collective::kAllReduce;
  const char* route;
};

void PrintTo(const Job& job, std::ostream* out) {
  *out << to_string(job.collective) << " " << job.route;
}

FabricOptions options(const Job& job) {
  FabricOptions own = test::short_options(job.route);
  own.collective = job.collective;
  own.profile.health.error_budget = 10;  // error feedback compensates
  own.profile.phases.push_back(
      {.from_step = kPhase, .routes = {{"head", "fp32"}, {"backbone", "waterfill:4+ef"}}});
  return own;
}

// The sums of every step.
std::vector<Gradients> run_until(FabricRank& rank, std::uint32_t own, std::uint64_t step) {
  std::vector<Gradients> sums;
  while (rank.fabric().step() < step) {
    if (rank.fabric().step() == kTroubled && own == 1) rank.fabric().report_capacity_breach();
    const Status status = rank.run_step();
    EXPECT_TRUE(status.ok()) << to_string(status);
    if (!status.ok()) break;
    sums.push_back(rank.gradients());
  }
  return sums;
}

struct Stop {
  std::uint64_t step = 0;  // the first after the save
  const char* decision;    // the reason of the step before it
  bool remembers = false;
};

void PrintTo(const Stop& stop, std::ostream* out) { *out << stop.step << " " << stop.decision; }

class EveryStop : public testing::TestWithParam<std::tuple<Job, Stop>> {};
INSTANTIATE_TEST_SUITE_P(
    Stops, EveryStop,
    testing::Combine(testing::Values(Job{.route = "waterfill:3+ef"}, Job{.route = "powersgd:2"},
                                     Job{.route = "waterfill:3+rms"},
                                     Job{Collective::kReduceScatter, "waterfill:3+ef"}),
                     testing::Values(Stop{kTroubled, "admitted", true},
                                     Stop{kFallback, "admitted", true},
                                     Stop{kFallback + 2, "cool_down", false},
                                     Stop{kProbation, "cool_down", false},
                                     Stop{kProbation + 1, "probation", true},
                                     Stop{kPhase, "admitted", true})));

TEST_P(EveryStop, IsResumedWithTheSameBits) {
  const Job& job = std::get<0>(GetParam());
  const Stop& stop = std::get<1>(GetParam());
  std::vector<Saved> saved(kRanks);
  std::vector<std::vector<Gradients>> uninterrupted(kRanks);
  std::vector<std::vector<Gradients>> resumed(kRanks);
  on_all_ranks(kRanks, [&](Transport& transport) {
    FabricRank rank(transport, options(job));
    run_until(rank, transport.rank(), stop.step);
    auto memory = rank.fabric().memory();
    ASSERT_TRUE(memory) << to_string(memory.status());
    saved[transport.rank()] = {.state = rank.fabric().state(),
                               .memory = std::move(*memory),
                               .decision = rank.decision("backbone")};
    uninterrupted[transport.rank()] = run_until(rank, transport.rank(), kEnd);
  });
  for (const Saved& own : saved) {
    EXPECT_THAT(own.decision, testing::EndsWith(stop.decision));
    EXPECT_EQ(!own.memory.empty(), stop.remembers);
  }
  on_all_ranks(kRanks, [&](Transport& transport) {
    const Saved& own = saved[transport.rank()];
    FabricRank rank(transport, options(job));
    ASSERT_TRUE(rank.fabric().load_state(own.state).ok());
    ASSERT_TRUE(rank.fabric().load_memory(own.memory).ok());
    EXPECT_EQ(rank.fabric().step(), stop.step);
    resumed[transport.rank()] = run_until(rank, transport.rank(), kEnd);
  });
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(uninterrupted[rank].size(), kEnd - stop.step);
    ASSERT_EQ(resumed[rank].size(), kEnd - stop.step);
    for (std::size_t i = 0; i < resumed[rank].size(); ++i) {
      EXPECT_TRUE(resumed[rank][i] == uninterrupted[rank][i]) << "step " << stop.step + i;
      EXPECT_TRUE(uninterrupted[rank][i] == uninterrupted[0][i]) << "step " << stop.step + i;
    }
  }
}

}  // namespace
}  // namespace nf
