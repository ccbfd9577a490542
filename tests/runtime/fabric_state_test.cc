// The checkpoint of a Fabric, apart from the bits of its sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/fabric_state.h"
#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::FabricRank;
using test::on_all_ranks;

FabricOptions options(Admit admit = Admit::kSafe) {
  return test::short_options("waterfill:4", admit);
}

// With a loss that is observed after the step, as in training.
void run_and_observe(FabricRank& rank, int steps) {
  for (int i = 0; i < steps; ++i) {
    test::run_steps(rank, 1);
    rank.fabric().observe_loss(1.0);
  }
}

TEST(FabricState, IsUnchangedAfterMemoryOfAnInvalidRoute) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, options());
    const std::vector<Fabric::Memory> memory = {{.route = "waterfill:99+ef", .entry = {}}};
    EXPECT_EQ(rank.fabric().load_memory(memory).code(), ErrorCode::kBadConfig);
    const auto kept = rank.fabric().memory();
    ASSERT_TRUE(kept) << to_string(kept.status());
    EXPECT_TRUE(kept->empty());
    run_and_observe(rank, 6);
  });
}

// The state of a job in which no region was useful.
std::string with_nothing_useful(const std::string& text) {
  auto state = nlohmann::json::parse(text);
  auto admission = nlohmann::json::parse(state["admission"].get<std::string>());
  for (auto& region : admission["regions"]) region["is_useful"] = false;
  state["admission"] = admission.dump();
  return state.dump();
}

TEST(FabricState, KeepsUselessRegions) {
  on_all_ranks(2, [&](Transport& transport) {
    std::string text;
    {
      FabricRank rank(transport, options(Admit::kUseful));
      run_and_observe(rank, 10);
      text = with_nothing_useful(rank.fabric().state());
    }
    FabricRank rank(transport, options(Admit::kUseful));
    ASSERT_TRUE(rank.fabric().load_state(text).ok());
    // Before its own steps have been observed.
    for (int i = 0; i < 2; ++i) {
      run_and_observe(rank, 1);
      EXPECT_EQ(rank.decision("backbone"), "fp32 not_useful") << "step " << rank.fabric().step();
    }
  });
}

TEST(FabricState, AdmitsSafeRegionsEvenIfNotUseful) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, options(Admit::kSafe));
    ASSERT_TRUE(rank.fabric().load_state(with_nothing_useful(rank.fabric().state())).ok());
    run_and_observe(rank, 5);
    EXPECT_EQ(rank.decision("backbone"), "waterfill:4 admitted");
  });
}

// An observation of one rank after its last step before the save.
struct Pending {
  std::string reason;
  std::function<void(Fabric&)> observe;
};

void PrintTo(const Pending& pending, std::ostream* out) { *out << pending.reason; }

class EveryPending : public testing::TestWithParam<Pending> {};
INSTANTIATE_TEST_SUITE_P(
    Kinds, EveryPending,
    testing::Values(Pending{"loss_spike",
                            [](Fabric& fabric) {
                              fabric.observe_loss(std::numeric_limits<double>::quiet_NaN());
                            }},
                    Pending{"loss_spike",
                            [](Fabric& fabric) {
                              fabric.observe_loss(std::numeric_limits<double>::infinity());
                            }},
                    Pending{"loss_spike", [](Fabric& fabric) { fabric.observe_loss(1e6); }},
                    Pending{"capacity", [](Fabric& fabric) { fabric.report_capacity_breach(); }}));

TEST_P(EveryPending, CountsInTheStepAfterALoad) {
  constexpr int kSteps = 14;
  std::vector<std::string> texts(2);
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, options());
    run_and_observe(rank, kSteps);
    if (transport.rank() == 1) GetParam().observe(rank.fabric());
    texts[transport.rank()] = rank.fabric().state();
    run_and_observe(rank, 3);
    EXPECT_EQ(rank.decision("backbone"), "fp32 " + GetParam().reason);
  });
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, options());
    ASSERT_TRUE(rank.fabric().load_state(texts[transport.rank()]).ok());
    EXPECT_EQ(rank.fabric().state(), texts[transport.rank()]);
    run_and_observe(rank, 2);
    EXPECT_EQ(rank.decision("backbone"), "waterfill:4 admitted");
    run_and_observe(rank, 1);
    EXPECT_EQ(rank.decision("backbone"), "fp32 " + GetParam().reason);
  });
}

TEST(FabricState, LoadsWithoutPending) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, options());
    rank.fabric().observe_loss(std::numeric_limits<double>::quiet_NaN());
    rank.fabric().report_capacity_breach();
    auto older = nlohmann::json::parse(rank.fabric().state());
    ASSERT_EQ(older.erase("pending"), 1u);
    ASSERT_TRUE(rank.fabric().load_state(older.dump()).ok());
    const auto now = nlohmann::json::parse(rank.fabric().state());
    EXPECT_EQ(now["pending"],
              nlohmann::json({{"loss", 0.0}, {"losses", 0}, {"capacity_breach", false}}));
  });
}

// The state of a job of one region, with one step that is not yet observed.
nlohmann::json small_state() {
  FabricState state;
  state.step = 8;
  state.admission = "{}";
  state.to_observe.emplace_back().step = 7;
  state.to_observe.back().regions = {{.energy = 2, .non_finite = 3}};
  state.pending.losses = 1;
  return nlohmann::json::parse(print(state));
}

std::string parse_error(const nlohmann::json& state) {
  const Expected<FabricState> parsed = parse_fabric_state(state.dump(), 1);
  EXPECT_FALSE(parsed) << state.dump();
  EXPECT_EQ(parsed.status().code(), ErrorCode::kInvalidArgument);
  return parsed.status().message();
}

TEST(FabricState, ReadsBackFromItsText) {
  const std::string text = small_state().dump();
  const Expected<FabricState> state = parse_fabric_state(text, 1);
  ASSERT_TRUE(state) << state.status().message();
  EXPECT_EQ(print(*state), text);
  EXPECT_EQ(state->step, 8u);
  EXPECT_EQ(state->to_observe.front().regions.front().non_finite, 3u);
}

// nlohmann-json converts -1 to 2^64 - 1, and 0.5 to 0.
TEST(FabricState, RejectsInvalidCounts) {
  const std::vector<std::pair<std::string, std::string>> counts = {
      {"/step", "step"},
      {"/ranks", "ranks"},
      {"/to_observe/0/step", "to_observe[0].step"},
      {"/to_observe/0/losses", "to_observe[0].losses"},
      {"/to_observe/0/capacity_breaches", "to_observe[0].capacity_breaches"},
      {"/to_observe/0/regions/0/1", "to_observe[0].regions[0].non_finite"},
      {"/pending/losses", "pending.losses"}};
  for (const auto& [place, name] : counts) {
    for (const nlohmann::json& value :
         {nlohmann::json(-1), nlohmann::json(0.5), nlohmann::json(1e300), nlohmann::json("1"),
          nlohmann::json(true), nlohmann::json(std::uint64_t{1} << 60)}) {
      nlohmann::json state = small_state();
      state[nlohmann::json::json_pointer(place)] = value;
      EXPECT_THAT(parse_error(state),
                  testing::StartsWith("not a Fabric state: " + name + " is not a whole number"))
          << value;
    }
  }
}

TEST(FabricState, RejectsMissingUnknownAndMistypedFields) {
  const nlohmann::json whole = small_state();
  for (const auto& [key, value] : whole.items()) {
    nlohmann::json state = whole;
    state[key] = nullptr;
    EXPECT_THAT(parse_error(state), testing::HasSubstr(key));
    state.erase(key);
    if (key == "pending" || key == "ranks" || key == "topology") {
      EXPECT_TRUE(parse_fabric_state(state.dump(), 1)) << key;  // as in older states
    } else {
      EXPECT_THAT(parse_error(state), testing::HasSubstr(key + " is missing"));
    }
  }
  nlohmann::json state = small_state();
  state["next"] = 1;
  EXPECT_THAT(parse_error(state), testing::HasSubstr("unknown key 'next'"));
  state = small_state();
  state["pending"]["capacity_breach"] = 1;
  EXPECT_THAT(parse_error(state), testing::HasSubstr("pending.capacity_breach is not true or"));
}

TEST(FabricState, RejectsImpossibleSteps) {
  nlohmann::json state = small_state();
  state["to_observe"][0]["step"] = 8;
  EXPECT_THAT(parse_error(state),
              testing::HasSubstr("to_observe[0].step is 8, but the next step is 8"));
  state = small_state();
  state["to_observe"] = std::vector<nlohmann::json>(100, state["to_observe"][0]);
  EXPECT_THAT(parse_error(state), testing::HasSubstr("to_observe is not a list of at most 64"));
  state = small_state();
  state["to_observe"][0]["regions"].push_back({0, 0, 0, 0});
  EXPECT_EQ(parse_error(state), "the state has 2 regions, this job has 1");
}

}  // namespace
}  // namespace nf
