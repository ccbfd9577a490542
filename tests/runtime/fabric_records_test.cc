// The telemetry records of a Fabric.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

using nlohmann::json;
using test::FabricRank;
using test::on_all_ranks;
using test::run_steps;
using test::short_options;

std::vector<json> records(FabricRank& rank, const std::string& event) {
  std::vector<json> found;
  for (const std::string& text : rank.records()) {
    if (json record = json::parse(text); record["event"] == event) found.push_back(record);
  }
  return found;
}

TEST(FabricRecords, ReportDetachOnce) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, short_options("waterfill:4"));
    run_steps(rank, 2);
    rank.fabric().detach();
    run_steps(rank, 10);  // past the end of warm-up
    std::vector<std::string> told;
    for (const json& record : records(rank, "decision")) {
      if (record["step"] == 0) continue;
      told.push_back(record["step"].dump() + " " + record["region"].get<std::string>() + " " +
                     record["to"].get<std::string>());
    }
    EXPECT_THAT(told, testing::ElementsAre("2 head forced", "2 backbone forced"));
    std::vector<std::uint64_t> epochs;
    for (const json& record : records(rank, "step")) epochs.push_back(record["epoch"]);
    EXPECT_THAT(epochs, testing::ElementsAre(0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
  });
}

TEST(FabricRecords, HaveNoShouldStepIfNotMonitored) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, short_options("fp32", Admit::kForced));
    run_steps(rank, 18);
    const std::vector<json> steps = records(rank, "step");
    ASSERT_EQ(steps.size(), 18u);
    for (const json& step : steps) {
      const bool is_monitored = step["step"].get<int>() % 16 == 0;
      EXPECT_EQ(step["should_step"], is_monitored ? json(true) : json()) << step["step"];
      for (const json& region : step["regions"]) {
        EXPECT_EQ(region["non_finite"], is_monitored ? json(0) : json()) << step["step"];
      }
    }
  });
}

TEST(FabricRecords, HaveTheLossOfThisRankInEveryStep) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, short_options("fp32", Admit::kForced));
    const double own = transport.rank() == 0 ? 1.0 : 3.0;
    for (int step = 0; step < 18; ++step) {
      if (step != 5) {
        rank.fabric().observe_loss(own + step);
        rank.fabric().observe_loss(own + step + 1);
      }
      run_steps(rank, 1);
    }
    const std::vector<json> steps = records(rank, "step");
    ASSERT_EQ(steps.size(), 18u);
    for (const json& step : steps) {
      const int number = step["step"];
      EXPECT_EQ(step["rank_loss"], number == 5 ? json() : json(own + number + 0.5)) << number;
      EXPECT_EQ(step["loss"], number % 16 == 0 ? json(2.0 + number + 0.5) : json()) << number;
    }
  });
}

TEST(FabricRecords, HaveNullForANonFiniteLoss) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, short_options("fp32", Admit::kForced));
    rank.fabric().observe_loss(std::numeric_limits<double>::quiet_NaN());
    run_steps(rank, 1);
    EXPECT_EQ(records(rank, "step").at(0).at("rank_loss"), json());
  });
}

TEST(FabricRecords, ReportBucketsAgainIfAPhaseHasOtherRoutes) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricOptions own = short_options("waterfill:4");
    own.profile.phases.push_back(
        {.from_step = 6, .routes = {{"head", "fp32"}, {"backbone", "fp32"}}});
    FabricRank rank(transport, own);
    run_steps(rank, 9);
    const std::vector<json> told = records(rank, "buckets");
    ASSERT_EQ(told.size(), 2u);
    EXPECT_EQ(told[0]["step"], 0);
    EXPECT_GT(told[0]["buckets"][1]["low_bit_values"].get<double>(), 0);
    EXPECT_EQ(told[1]["step"], 6);
    EXPECT_EQ(told[1]["buckets"][1]["low_bit_values"], 0);
    EXPECT_EQ(told[1]["buckets"][1]["values"], told[0]["buckets"][1]["values"]);
  });
}

TEST(FabricRecords, ReportWhetherARegionUsesLowBits) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, short_options("waterfill:4"));
    run_steps(rank, 6);
    for (const json& record : records(rank, "decision")) {
      const bool is_backbone = record["region"] == "backbone";  // admitted, and so is the head
      EXPECT_EQ(record["to"], "admitted");
      EXPECT_EQ(record["was_low_bit"], false);
      EXPECT_EQ(record["is_low_bit"], is_backbone);
    }
    EXPECT_EQ(records(rank, "decision").size(), 2u);
  });
}

TEST(FabricRecords, AcceptNamesThatAreNotUtf8) {
  on_all_ranks(1, [&](Transport& transport) {
    FabricOptions own = short_options("waterfill:4");
    own.profile.name = "caf\xe9";
    own.parameters = {{.name = "head.\xff", .module_type = "Linear", .count = 8, .rows = 0},
                      {.name = "b", .module_type = "Linear", .count = 8, .rows = 0}};
    test::OwnDenseEngine engine(transport);
    const auto fabric = Fabric::create(transport, engine, own);
    ASSERT_TRUE(fabric) << to_string(fabric.status());
    std::vector<float> values(16, 1.0f);
    for (int step = 0; step < 6; ++step) {
      const Status status =
          (*fabric)->all_reduce({.index = 0,
                                 .is_last = true,
                                 .values = Values(values),
                                 .slots = {{.parameter = 0, .offset = 0, .count = 8},
                                           {.parameter = 1, .offset = 8, .count = 8}}});
      ASSERT_TRUE(status.ok()) << to_string(status);
    }
    std::vector<std::string> events;
    for (const std::string& text : (*fabric)->drain()) {
      events.push_back(json::parse(text)["event"]);
    }
    EXPECT_THAT(events, testing::IsSupersetOf({"attach", "buckets", "step", "decision"}));
  });
}

}  // namespace
}  // namespace nf
