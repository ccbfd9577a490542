// A run with recorded decisions follows them, independent of its measurements.
#include "runtime/recorded_decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::FabricRank;
using test::on_all_ranks;
using test::run_steps;
using test::short_options;
using Gradients = FabricRank::Gradients;
using Decisions = std::vector<MeasuredDecision>;

constexpr std::uint32_t kRanks = 2;
constexpr double kSlow = 1e-4;  // Gb/s: low bits are useful
constexpr double kFast = 1e6;
// A region falls back at every step whose length is known.
constexpr double kNoLines = 1e-9;

struct Outcome {
  std::vector<std::string> backbone;  // its decision, by step
  std::vector<std::string> changes;   // records of decisions and measured inputs
  std::vector<Gradients> sums;
  Decisions measured;

  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.backbone == b.backbone && a.changes == b.changes && a.sums == b.sums;
  }
};

Outcome run(FabricRank& rank, int steps) {
  Outcome result;
  for (int i = 0; i < steps; ++i) {
    run_steps(rank, 1);
    result.backbone.push_back(rank.decision("backbone"));
    result.sums.push_back(rank.gradients());
  }
  for (const std::string& text : rank.records()) {
    const auto record = nlohmann::json::parse(text);
    if (record["event"] == "measured" || record["event"] == "decision") {
      result.changes.push_back(text);
    }
    if (record["event"] == "measured") {
      result.measured.push_back({.from_step = record["step"].get<std::uint64_t>(),
                                 .useful = record["useful"].get<std::vector<std::string>>(),
                                 .is_over_capacity = record["over_capacity"].get<bool>()});
    }
  }
  return result;
}

// The result of rank 0; the others must be equal.
Outcome run(const FabricOptions& options, int steps) {
  std::vector<Outcome> runs(kRanks);
  on_all_ranks(kRanks, [&](Transport& transport) {
    FabricRank rank(transport, options);
    runs[transport.rank()] = run(rank, steps);
  });
  for (const Outcome& other : runs) EXPECT_TRUE(other == runs[0]);
  return runs[0];
}

FabricOptions with(double link_gbps, std::optional<Decisions> decisions = {}) {
  FabricOptions options = short_options("waterfill:4", Admit::kUseful);
  options.link_gbps = link_gbps;
  options.decisions = std::move(decisions);
  return options;
}

const Decisions kChanging = {{.from_step = 2, .useful = {"head"}},
                             {.from_step = 6, .useful = {"head", "backbone"}},
                             {.from_step = 9}};

TEST(RecordedDecisions, ApplyOnAnyLink) {
  const Outcome slow = run(with(kSlow, kChanging), 11);
  const Outcome fast = run(with(kFast, kChanging), 11);
  EXPECT_TRUE(slow == fast);
  const std::string warm_up = "fp32 warm_up";
  const std::string not_useful = "fp32 not_useful";
  const std::string low_bit = "waterfill:4 admitted";
  EXPECT_THAT(slow.backbone,
              testing::ElementsAre(warm_up, warm_up, warm_up, warm_up, not_useful, not_useful,
                                   low_bit, low_bit, low_bit, not_useful, not_useful));
}

TEST(RecordedDecisions, MakeEveryRegionUsefulIfEmpty) {
  const Outcome fast = run(with(kFast, Decisions{}), 8);
  EXPECT_EQ(fast.backbone.back(), "waterfill:4 admitted");
  EXPECT_TRUE(fast.measured.empty());
  EXPECT_TRUE(fast == run(with(kSlow, Decisions{}), 8));
}

TEST(RecordedDecisions, DoNotOverrideSafety) {
  FabricOptions options = with(kSlow, Decisions{});
  options.profile.health.error_budget = 1e-9;
  EXPECT_EQ(run(options, 8).backbone.back(), "fp32 error_budget");
}

TEST(RecordedDecisions, OfARunAreInItsRecordsAndRepeatIt) {
  FabricOptions options = with(kSlow);
  // Regions that are dense in the profile are not candidates, and so not useful.
  options.profile.phases.push_back(
      {.from_step = 8, .routes = {{"head", "waterfill:5"}, {"backbone", "fp32"}}});
  const Outcome recorded = run(options, 12);
  ASSERT_GE(recorded.measured.size(), 2);
  EXPECT_EQ(recorded.measured.back().from_step, 8);
  EXPECT_THAT(recorded.measured.back().useful, testing::ElementsAre("head"));
  options.link_gbps = kFast;
  options.decisions = recorded.measured;
  EXPECT_TRUE(run(options, 12) == recorded);
}

TEST(RecordedDecisions, ReplaceTheMeasuredRateOfAReducer) {
  FabricOptions options = short_options("waterfill:4");
  options.profile.reducer.lines_per_second = kNoLines;
  const Outcome recorded = run(options, 14);
  EXPECT_THAT(recorded.backbone, testing::Contains("fp32 capacity"));
  EXPECT_THAT(recorded.measured,
              testing::Contains(testing::Field(&MeasuredDecision::is_over_capacity, true)));

  options.profile.reducer.lines_per_second = 1e15;
  EXPECT_THAT(run(options, 14).backbone, testing::Not(testing::Contains("fp32 capacity")));
  options.decisions = recorded.measured;
  EXPECT_TRUE(run(options, 14) == recorded);

  options.profile.reducer.lines_per_second = kNoLines;
  EXPECT_TRUE(run(options, 14) == recorded);
  options.decisions = Decisions{};
  EXPECT_EQ(run(options, 14).backbone.back(), "waterfill:4 admitted");
}

TEST(RecordedDecisions, ContinueAtTheStepOfAResumedRun) {
  const Outcome whole = run(with(kSlow, kChanging), 11);
  for (const int stop : {3, 5, 7, 9, 10}) {
    on_all_ranks(kRanks, [&](Transport& transport) {
      FabricRank first(transport, with(kSlow, kChanging));
      run_steps(first, stop);
      FabricRank second(transport, with(kFast, kChanging));
      ASSERT_TRUE(second.fabric().load_state(first.fabric().state()).ok());
      const Outcome rest = run(second, 11 - stop);
      EXPECT_THAT(rest.backbone,
                  testing::ElementsAreArray(whole.backbone.begin() + stop, whole.backbone.end()));
      EXPECT_TRUE(std::ranges::equal(rest.sums, std::span(whole.sums).subspan(stop)));
    });
  }
}

// A job that resumes records the loaded inputs.
TEST(RecordedDecisions, OfAResumedRunBeginWithTheLoadedState) {
  on_all_ranks(kRanks, [&](Transport& transport) {
    FabricRank first(transport, with(kSlow, kChanging));
    run_steps(first, 5);
    FabricRank second(transport, with(kSlow));
    ASSERT_TRUE(second.fabric().load_state(first.fabric().state()).ok());
    const Outcome rest = run(second, 2);
    ASSERT_FALSE(rest.measured.empty());
    EXPECT_EQ(rest.measured[0].from_step, 5);
    EXPECT_THAT(rest.measured[0].useful, testing::ElementsAre("head"));
  });
}

TEST(RecordedDecisions, AreRejectedIfInvalid) {
  const Profile profile = test::short_profile("waterfill:4");
  const auto why = [&](const Decisions& decisions) {
    const auto made = RecordedDecisions::make(decisions, profile);
    EXPECT_EQ(made.status().code(), ErrorCode::kBadConfig);
    return made.status().message();
  };
  EXPECT_THAT(why({{.from_step = 3, .useful = {"trunk"}}}),
              testing::HasSubstr("recorded decision 0: the profile has no region 'trunk'"));
  EXPECT_THAT(why({{.from_step = 3}, {.from_step = 3}}),
              testing::HasSubstr("recorded decision 1: step 3 comes after step 3"));
}

}  // namespace
}  // namespace nf
