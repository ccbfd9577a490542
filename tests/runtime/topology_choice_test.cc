// The choice of a topology is a pure function of the job and of shared times.
#include "runtime/topology_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/fabric_job.h"

namespace nf {
namespace {

using testing::ElementsAre;
using enum Topology;

std::vector<Topology> candidates(std::uint32_t ranks, const FabricOptions& options = {},
                                 const std::string& route = "waterfill:4") {
  return topology_candidates(options, test::short_profile(route), ranks);
}

TEST(TopologyCandidates, BeginWithTheFixedChoice) {
  EXPECT_THAT(candidates(3), ElementsAre(kDirect, kTree, kHalvingDoubling, kRing));
  EXPECT_THAT(candidates(32), ElementsAre(kDirect, kTree, kHalvingDoubling, kRing));
  EXPECT_THAT(candidates(33), ElementsAre(kTree, kHalvingDoubling));
}

TEST(TopologyCandidates, HaveHostGroupsIfHostsHaveSeveralRanks) {
  EXPECT_THAT(candidates(8, {.host_group_size = 2}),
              ElementsAre(kHierarchical, kTree, kHalvingDoubling, kDirect, kRing));
  EXPECT_THAT(candidates(8, {.host_group_size = 2}, "waterfill:4+ef"),
              ElementsAre(kDirect, kTree, kHalvingDoubling, kRing));
  EXPECT_THAT(candidates(8, {.host_group_size = 8}),
              ElementsAre(kDirect, kTree, kHalvingDoubling, kRing));
}

TEST(TopologyCandidates, AreOneIfThereIsNothingToChoose) {
  EXPECT_THAT(candidates(1), ElementsAre(kDirect));
  EXPECT_THAT(candidates(2), ElementsAre(kDirect));
  EXPECT_THAT(candidates(8, {.topology = kRing}), ElementsAre(kRing));
  EXPECT_THAT(candidates(8, {.collective = Collective::kReduceScatter}), ElementsAre(kDirect));
}

TEST(TypicalBucket, HasTheLowBitValuesOfTheModel) {
  auto binding = Binding::make(test::short_profile("waterfill:4"), test::small_model());
  ASSERT_TRUE(binding) << to_string(binding.status());
  std::size_t low_bit = 0;
  std::size_t all = 0;
  for (std::uint32_t i = 0; i < binding->parameters().size(); ++i) {
    const std::size_t count = binding->parameters()[i].count;
    all += count;
    const bool is_dense = binding->route(binding->region_of(i), 0) == kDenseRoute;
    low_bit += is_dense || binding->is_small(i) ? 0 : count;
  }
  ASSERT_GT(low_bit, 0);
  const auto whole = typical_bucket(*binding, all);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->route, "waterfill:4");
  EXPECT_EQ(whole->values, low_bit);
  EXPECT_EQ(typical_bucket(*binding, 10 * all)->values, low_bit);
  EXPECT_EQ(typical_bucket(*binding, all - 1)->values, (low_bit + 1) / 2);
  EXPECT_FALSE(typical_bucket(*binding, 0));
}

TEST(TypicalBucket, HasTheMainRouteOfTheLastPhase) {
  Profile profile = test::short_profile("waterfill:4");
  profile.phases.push_back(
      {.from_step = 9, .routes = {{"head", "dynamiq:5"}, {"backbone", "waterfill:3"}}});
  auto binding = Binding::make(profile, test::small_model());
  ASSERT_TRUE(binding) << to_string(binding.status());
  EXPECT_EQ(typical_bucket(*binding, 1 << 20)->route, "waterfill:3");
}

TEST(TypicalBucket, DoesNotExistIfAllRoutesAreDense) {
  auto binding = Binding::make(test::short_profile("fp32"), test::small_model());
  ASSERT_TRUE(binding) << to_string(binding.status());
  EXPECT_FALSE(typical_bucket(*binding, 1 << 20));
}

TEST(Encodes, FollowTheLongestPath) {
  const auto encodes = [](Topology topology, std::uint32_t ranks, std::uint32_t group = 0) {
    return encodes_of(topology, "waterfill:4", group, ranks);
  };
  EXPECT_EQ(encodes(kDirect, 8), 2);
  EXPECT_EQ(encodes(kRing, 8), 8);
  EXPECT_EQ(encodes(kTree, 8), 4);
  EXPECT_EQ(encodes(kTree, 9), 5);
  EXPECT_EQ(encodes(kHalvingDoubling, 8), 4);
  EXPECT_EQ(encodes(kHalvingDoubling, 9), 5);
  EXPECT_EQ(encodes(kHierarchical, 8, 2), 4);
}

TEST(Encodes, AreOneIfTheyAddNoError) {
  for (const char* route : {"g_binary", "bf16", "powersgd:2"}) {
    EXPECT_EQ(encodes_of(kRing, route, 0, 8), 1) << route;
  }
}

TEST(TopologyChoice, IsTheFirstUnlessAnotherIsMuchFaster) {
  EXPECT_EQ(choose_topology(std::vector<TopologyTime>{{kDirect, 1}}), kDirect);
  EXPECT_EQ(choose_topology(std::vector<TopologyTime>{{kDirect, 1}, {kTree, 1}}), kDirect);
  EXPECT_EQ(choose_topology(std::vector<TopologyTime>{{kDirect, 1}, {kTree, 0.92}}), kDirect);
  EXPECT_EQ(choose_topology(std::vector<TopologyTime>{{kDirect, 1}, {kTree, 0.90}}), kTree);
  EXPECT_EQ(choose_topology(std::vector<TopologyTime>{{kHierarchical, 1}, {kTree, 0.90}}), kTree);
}

TEST(TopologyChoice, TakesMoreForMoreEncodes) {
  const auto choice = [](double ring, std::uint32_t encodes) {
    return choose_topology(std::vector<TopologyTime>{{kDirect, 1, 2}, {kRing, ring, encodes}});
  };
  EXPECT_EQ(choice(0.88, 4), kDirect);
  EXPECT_EQ(choice(0.86, 4), kRing);
  EXPECT_EQ(choice(0.84, 8), kDirect);
  EXPECT_EQ(choice(0.82, 8), kRing);
  EXPECT_EQ(choice(0.92, 1), kDirect);  // fewer encodes are no advantage
  EXPECT_EQ(choice(0.90, 1), kRing);
}

TEST(TopologyChoice, IsTheFastestOfSeveral) {
  std::vector<TopologyTime> times{
      {kDirect, 1}, {kTree, 0.8}, {kHalvingDoubling, 0.7}, {kRing, 0.75}};
  for (std::size_t i = 1; i < times.size(); ++i) {
    std::rotate(times.begin() + 1, times.begin() + 2, times.end());
    EXPECT_EQ(choose_topology(times), kHalvingDoubling);
  }
}

}  // namespace
}  // namespace nf
