// A rank that does not set the loss scale, such as one without data under DDP's join(), uses that
// of the others: its sums, route memory, statistics and decisions are the same as if it had set it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::FabricRank;
using test::on_all_ranks;

constexpr std::uint32_t kRanks = 3;
constexpr int kSteps = 24;
constexpr int kStops = 6;  // setting it on rank 1

// The results of one rank.
struct Seen {
  std::vector<FabricRank::Gradients> gradients;
  std::vector<std::string> decisions;
  std::vector<std::string> statistics;
  std::vector<MemoryEntry> memory;
};

float scale_of(int step) { return step < 9 ? 4096.0f : step < 15 ? 2048.0f : 96.0f; }

std::string statistics_of(const Fabric& fabric) {
  const auto steps = nlohmann::json::parse(fabric.state())["to_observe"];
  return steps.back()["regions"].dump();
}

std::vector<Seen> run(const FabricOptions& options, bool stops) {
  std::vector<Seen> seen(kRanks);
  on_all_ranks(kRanks, [&](Transport& transport) {
    FabricRank rank(transport, options);
    Seen& own = seen[transport.rank()];
    for (int step = 0; step < kSteps; ++step) {
      const float scale = scale_of(step);
      if (!stops || transport.rank() != 1 || step < kStops) rank.fabric().set_loss_scale(scale);
      const Status status = rank.run_step([&](FabricRank::Gradients& gradients) {
        for (auto& gradient : gradients) {
          for (float& value : gradient) value *= scale;
        }
      });
      ASSERT_TRUE(status.ok()) << to_string(status);
      own.gradients.push_back(rank.gradients());
      own.decisions.push_back(rank.decision("backbone") + ", " + rank.decision("head"));
      own.statistics.push_back(statistics_of(rank.fabric()));
    }
    const auto memory = rank.fabric().memory();
    ASSERT_TRUE(memory) << to_string(memory.status());
    for (const Fabric::Memory& one : *memory) own.memory.push_back(one.entry);
  });
  return seen;
}

// Norms are stored without the scale, so a wrong scale would be a spike.
void expect_same(const FabricOptions& options) {
  const std::vector<Seen> all_set = run(options, false);
  const std::vector<Seen> one_stops = run(options, true);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    EXPECT_EQ(one_stops[rank].gradients, all_set[rank].gradients);
    EXPECT_EQ(one_stops[rank].decisions, all_set[rank].decisions);
    EXPECT_EQ(one_stops[rank].statistics, all_set[rank].statistics);
    EXPECT_EQ(one_stops[rank].memory, all_set[rank].memory);
    EXPECT_EQ(one_stops[rank].statistics, one_stops[0].statistics);
    EXPECT_EQ(one_stops[rank].decisions, one_stops[0].decisions);
  }
}

TEST(StaleLossScale, IsReplacedInLowBitSteps) {
  for (const char* route : {"waterfill:4", "g_binary+ef", "powersgd:2"}) {
    SCOPED_TRACE(route);
    expect_same(test::short_options(route));
    expect_same(test::short_options(route, Admit::kForced));
  }
}

// Every step in shadow mode is monitored, and none has a low-bit sum.
TEST(StaleLossScale, IsReplacedInDenseSteps) {
  FabricOptions options = test::short_options("waterfill:4");
  options.mode = Mode::kShadow;
  expect_same(options);
}

TEST(LossScale, MustBeEqualOnRanksThatSetIt) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, test::short_options("g_binary+ef"));
    rank.fabric().set_loss_scale(transport.rank() == 0 ? 2048 : 4096);
    const Status status = rank.run_step();
    EXPECT_EQ(status.code(), ErrorCode::kDisagreement);
    EXPECT_EQ(status.message(), "rank 0 has loss scale 2048, rank 1 has 4096");
  });
}

// Setting it once is enough, and not necessarily for the first step.
TEST(LossScale, StaysUntilItIsSetAgain) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, test::short_options("g_binary+ef"));
    std::vector<double> energies;
    for (int step = 0; step < 4; ++step) {
      if (step == 2) rank.fabric().set_loss_scale(64);
      const Status status = rank.run_step([&](FabricRank::Gradients& gradients) {
        for (auto& gradient : gradients) {
          for (float& value : gradient) value = step < 2 ? 1.0f : 64.0f;
        }
      });
      ASSERT_TRUE(status.ok()) << to_string(status);
      energies.push_back(nlohmann::json::parse(statistics_of(rank.fabric()))[0][0]);
    }
    EXPECT_GT(energies[0], 0);
    EXPECT_THAT(energies, testing::Each(energies[0]));
  });
}

}  // namespace
}  // namespace nf
