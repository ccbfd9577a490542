// Topologies are measured with sums over the job's transport. All ranks get the same times.
#include "runtime/topology_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::FabricRank;
using test::on_all_ranks;
using enum Topology;

constexpr std::uint32_t kRanks = 4;
const std::vector<Topology> kCandidates = {kDirect, kTree, kHalvingDoubling, kRing};

// A transport whose clock advances only with the bytes that the rank sends. Links between ranks
// that are not neighbours in a ring are slow.
class RingOfFastLinks final : public Transport {
 public:
  RingOfFastLinks(Transport& transport, double slow_seconds_per_byte)
      : transport_(transport), slow_(slow_seconds_per_byte) {}
  std::string_view name() const override { return transport_.name(); }
  std::uint32_t rank() const override { return transport_.rank(); }
  std::uint32_t ranks() const override { return transport_.ranks(); }
  Duration now() const override { return now_; }
  Status send(Transfer& transfer) override {
    const bool is_fast = transfer.peer == (rank() + 1) % ranks();
    const double seconds = static_cast<double>(transfer.bytes.size()) * (is_fast ? 1e-9 : slow_);
    now_ += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    return transport_.send(transfer);
  }
  Status receive(Transfer& transfer) override { return transport_.receive(transfer); }
  Status progress() override { return transport_.progress(); }
  Status wait(Duration /*deadline*/) override {
    return transport_.wait(transport_.now() + std::chrono::seconds(60));
  }
  void abort(const Status& why) override { transport_.abort(why); }

 private:
  Transport& transport_;
  const double slow_;
  Duration now_{};
};

// By rank.
std::vector<std::vector<TopologyTime>> measure(double slow_seconds_per_byte, std::size_t values) {
  std::vector<std::vector<TopologyTime>> times(kRanks);
  on_all_ranks(kRanks, [&](Transport& transport) {
    RingOfFastLinks links(transport, slow_seconds_per_byte);
    StatisticsReducer reducer(transport, 0, std::chrono::seconds(60));
    TopologyProbe probe(links, reducer, {.codec = "waterfill:4"});
    auto measured = probe.measure(kCandidates, values);
    ASSERT_TRUE(measured) << to_string(measured.status());
    times[transport.rank()] = std::move(*measured);
  });
  return times;
}

TEST(TopologyProbe, GivesAllRanksTheSameTimes) {
  const auto times = measure(1e-7, 64 << 10);
  for (const auto& own : times) {
    ASSERT_EQ(own.size(), kCandidates.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(own[i].topology, kCandidates[i]);
      EXPECT_EQ(own[i].seconds, times[0][i].seconds);
      EXPECT_GT(own[i].seconds, 0);
    }
  }
}

TEST(TopologyProbe, FindsTheTopologyOfTheFastLinks) {
  EXPECT_EQ(choose_topology(measure(1e-7, 64 << 10)[0]), kRing);
  EXPECT_EQ(choose_topology(measure(1e-9, 64 << 10)[0]), kDirect);
}

// The times are those of the whole bucket, although only a part of it is summed.
TEST(TopologyProbe, ScalesTheTimesOfLargeBuckets) {
  const double whole = measure(1e-9, 1 << 20)[0][0].seconds;
  EXPECT_NEAR(measure(1e-9, 16 << 20)[0][0].seconds, 16 * whole, 1e-9);
}

TEST(TopologyProbe, MeasuresOnlyTheFirstOnLinksThatAreTooSlow) {
  for (const auto& own : measure(1e-3, 64 << 10)) {
    ASSERT_EQ(own.size(), 1);
    EXPECT_EQ(own[0].topology, kDirect);
  }
}

TEST(TopologyProbe, MeasuresEveryRoute) {
  for (const char* route : {"powersgd:2", "g_ternary+ef", "bf16", "topkc:8"}) {
    on_all_ranks(3, [&](Transport& transport) {
      StatisticsReducer reducer(transport, 0, std::chrono::seconds(60));
      TopologyProbe probe(transport, reducer, {.codec = route});
      const auto times = probe.measure(kCandidates, 1);
      ASSERT_TRUE(times) << route << ": " << to_string(times.status());
      EXPECT_TRUE(std::isfinite(times->front().seconds));
    });
  }
}

TEST(TopologyProbe, FailsIfARankIsGone) {
  on_all_ranks(3, [&](Transport& transport) {
    StatisticsReducer reducer(transport, 0, std::chrono::seconds(60));
    if (transport.rank() == 1) return;
    TopologyProbe probe(transport, reducer, {.codec = "waterfill:4"});
    EXPECT_FALSE(probe.measure(kCandidates, 64 << 10));
  });
}

FabricOptions measured_options() {
  FabricOptions options = test::short_options("waterfill:3+ef");
  options.measured_bucket_values = 1 << 20;
  return options;
}

struct Outcome {
  Topology topology = kDirect;
  std::vector<FabricRank::Gradients> sums;
  std::vector<std::string> records;
  std::string state;
};

Outcome run(Transport& transport, const FabricOptions& options, const std::string& state = "") {
  FabricRank rank(transport, options);
  if (!state.empty()) {
    EXPECT_TRUE(rank.fabric().load_state(state).ok());
  }
  Outcome outcome;
  outcome.topology = rank.fabric().topology();
  outcome.state = rank.fabric().state();
  for (int step = 0; step < 8; ++step) {
    EXPECT_TRUE(rank.run_step().ok());
    outcome.sums.push_back(rank.gradients());
  }
  outcome.records = rank.records();
  return outcome;
}

TEST(MeasuredTopology, HasTheBitsOfTheSameOneGiven) {
  std::vector<Outcome> measured(kRanks);
  std::vector<Outcome> given(kRanks);
  on_all_ranks(kRanks, [&](Transport& transport) {
    measured[transport.rank()] = run(transport, measured_options());
  });
  FabricOptions options = measured_options();
  options.topology = measured[0].topology;
  on_all_ranks(kRanks,
               [&](Transport& transport) { given[transport.rank()] = run(transport, options); });
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(measured[rank].topology, measured[0].topology);
    EXPECT_EQ(given[rank].topology, measured[0].topology);
    EXPECT_TRUE(measured[rank].sums == given[rank].sums) << rank;
  }
  const auto times = nlohmann::json::parse(measured[0].records.front())["topology_ms"];
  EXPECT_TRUE(times.contains("direct")) << times;
  EXPECT_EQ(nlohmann::json::parse(given[0].records.front())["topology_ms"],
            nlohmann::json::object());
}

std::string with(std::string state, const char* key, const nlohmann::json& value) {
  auto fields = nlohmann::json::parse(state);
  fields[key] = value;
  return fields.dump();
}

TEST(LoadedTopology, ReplacesTheOneOfTheJob) {
  std::vector<Outcome> resumed(kRanks);
  std::vector<Outcome> given(kRanks);
  FabricOptions options = test::short_options("waterfill:3+ef");
  on_all_ranks(kRanks, [&](Transport& transport) {
    std::string state = FabricRank(transport, options).fabric().state();
    resumed[transport.rank()] = run(transport, options, with(state, "topology", "ring"));
  });
  options.topology = kRing;
  on_all_ranks(kRanks,
               [&](Transport& transport) { given[transport.rank()] = run(transport, options); });
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(resumed[rank].topology, kRing);
    EXPECT_TRUE(resumed[rank].sums == given[rank].sums) << rank;
    EXPECT_EQ(nlohmann::json::parse(resumed[rank].state)["topology"], "ring");
    EXPECT_THAT(resumed[rank].records,
                testing::Contains(R"({"event":"topology","topology":"ring"})"));
  }
}

TEST(LoadedTopology, IsIgnoredIfItDoesNotFit) {
  FabricOptions given = test::short_options("waterfill:4");
  given.topology = kTree;
  on_all_ranks(3, [&](Transport& transport) {
    FabricRank automatic(transport, test::short_options("waterfill:4"));
    Fabric& fabric = automatic.fabric();
    const std::string state = fabric.state();
    ASSERT_EQ(fabric.topology(), kDirect);
    ASSERT_TRUE(fabric.load_state(with(with(state, "topology", "ring"), "ranks", 8)).ok());
    EXPECT_EQ(fabric.topology(), kDirect);
    ASSERT_TRUE(fabric.load_state(with(state, "topology", "hierarchical")).ok());
    EXPECT_EQ(fabric.topology(), kDirect);
    EXPECT_EQ(fabric.load_state(with(state, "topology", "star")).code(),
              ErrorCode::kInvalidArgument);
    FabricRank chosen(transport, given);
    ASSERT_TRUE(chosen.fabric().load_state(with(state, "topology", "ring")).ok());
    EXPECT_EQ(chosen.fabric().topology(), kTree);
  });
}

// States of earlier versions.
TEST(LoadedTopology, MayBeMissing) {
  on_all_ranks(3, [&](Transport& transport) {
    FabricRank rank(transport, test::short_options("waterfill:4"));
    auto fields = nlohmann::json::parse(rank.fabric().state());
    fields.erase("topology");
    fields.erase("ranks");
    EXPECT_TRUE(rank.fabric().load_state(fields.dump()).ok());
    EXPECT_EQ(rank.fabric().topology(), kDirect);
  });
}

TEST(LoadedTopology, MustBeLoadedOnAllRanks) {
  on_all_ranks(3, [&](Transport& transport) {
    FabricRank rank(transport, test::short_options("waterfill:4"));
    const std::string state = with(rank.fabric().state(), "topology", "ring");
    if (transport.rank() == 1) {
      ASSERT_TRUE(rank.fabric().load_state(state).ok());
    }
    EXPECT_EQ(rank.run_step().code(), ErrorCode::kDisagreement);
  });
}

}  // namespace
}  // namespace nf
