#include "collective/traffic_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/generator.h"
#include "support/ranks.h"
#include "support/spellings.h"

namespace nf {
namespace {

using test::on_all_ranks;
using testing::HasSubstr;

const std::vector<ParameterShape> kShapes = {
    {.count = 20'000, .rows = 100}, {.count = 100}, {.count = 4096, .rows = 16}, {.count = 5121}};

// Compares the prediction with the bytes that every rank counts in a real call.
void expect_exact(const AllReduceOptions& options, std::uint32_t ranks,
                  const std::vector<ParameterShape>& shapes = kShapes) {
  SCOPED_TRACE(testing::Message() << options.codec << " by " << to_string(options.topology)
                                  << " among " << ranks << ", tiles of " << options.tile_bytes);
  on_all_ranks(ranks, [&](Transport& transport) {
    const auto sum = AllReduce::create(transport, options);
    ASSERT_TRUE(sum) << to_string(sum.status());
    test::Generator random(transport.rank());
    std::vector<std::vector<float>> values;
    std::vector<Gradient> gradients;
    for (const ParameterShape& shape : shapes) {
      values.push_back(random.mixture(shape.count));
      gradients.push_back({.parameter = values.size(),
                           .values = Values(std::span(values.back())),
                           .rows = shape.rows});
    }
    ASSERT_TRUE((*sum)->run({.gradients = gradients}).ok());
    const auto predicted = model_traffic(options, shapes, ranks, transport.rank());
    ASSERT_TRUE(predicted) << to_string(predicted.status());
    EXPECT_EQ(predicted->bytes, (*sum)->traffic().total());
  });
}

TEST(TrafficModel, IsExactForEveryCodecAndTopology) {
  std::vector<std::string> codecs = test::codec_spellings();
  codecs.insert(codecs.end(), {"powersgd:1", "powersgd:4", "waterfill:3+ef"});
  for (const std::string& codec : codecs) {
    for (const Topology topology : all_topologies()) {
      expect_exact({.codec = codec, .topology = topology, .host_group_size = 2, .tile_bytes = 3000},
                   4);
    }
  }
}

TEST(TrafficModel, IsExactForAnyNumberOfRanksAndTileSize) {
  for (const char* codec : {"fp32", "waterfill:4", "g_binary", "topkc:8", "powersgd:2"}) {
    for (const Topology topology : all_topologies()) {
      for (const std::uint32_t ranks : {1u, 2u, 3u, 6u}) {
        const std::uint32_t group = ranks % 3 == 0 ? 3 : 1;
        expect_exact({.codec = codec, .topology = topology, .host_group_size = group}, ranks);
        expect_exact(
            {.codec = codec, .topology = topology, .host_group_size = group, .tile_bytes = 1500},
            ranks);
      }
      expect_exact({.codec = codec, .topology = topology, .host_group_size = 4}, 4);
    }
  }
}

TEST(TrafficModel, IsExactForTinyParameters) {
  for (const char* codec : {"fp32", "waterfill:4", "g_binary", "powersgd:2"}) {
    for (const auto& shapes :
         {std::vector<ParameterShape>{}, {{.count = 0}}, {{.count = 1}}, {{.count = 0}, {}}}) {
      expect_exact({.codec = codec, .topology = Topology::kDirect}, 3, shapes);
    }
  }
}

TEST(TrafficModel, HasItsMaximumAtRankZero) {
  for (const Topology topology : all_topologies()) {
    for (const std::uint32_t ranks : {2u, 6u, 12u}) {
      const AllReduceOptions options{
          .codec = "waterfill:4", .topology = topology, .host_group_size = 2};
      const std::vector<ParameterShape> shapes = {{.count = 1 << 20}};
      const auto first = model_traffic(options, shapes, ranks);
      ASSERT_TRUE(first);
      for (std::uint32_t rank = 1; rank < ranks; ++rank) {
        const auto other = model_traffic(options, shapes, ranks, rank);
        EXPECT_LT(static_cast<double>(other->bytes), 1.01 * static_cast<double>(first->bytes))
            << to_string(topology) << " " << rank << " of " << ranks;
      }
    }
  }
}

TEST(TrafficModel, CountsDependentHops) {
  const auto hops = [](const char* codec, Topology topology, std::uint32_t ranks) {
    const auto predicted =
        model_traffic({.codec = codec, .topology = topology, .host_group_size = 2}, kShapes, ranks);
    return predicted ? predicted->hops : 0;
  };
  // Three rounds of agreement among eight ranks.
  EXPECT_EQ(hops("fp32", Topology::kRing, 8), 3u + 14);
  EXPECT_EQ(hops("fp32", Topology::kTree, 8), 3u + 6);
  EXPECT_EQ(hops("fp32", Topology::kDirect, 8), 3u + 2);
  EXPECT_EQ(hops("fp32", Topology::kEndpoint, 8), 3u + 2);
  EXPECT_EQ(hops("fp32", Topology::kHalvingDoubling, 8), 3u + 6);
  EXPECT_EQ(hops("fp32", Topology::kHalvingDoubling, 6), 3u + 6);
  EXPECT_EQ(hops("fp32", Topology::kHierarchical, 8), 3u + 2 + 6);
  // Statistics are sent to their owner and back.
  EXPECT_EQ(hops("waterfill:4", Topology::kDirect, 8), 3u + 2 + 2);
  EXPECT_EQ(hops("powersgd:2", Topology::kDirect, 8), 2 * (3u + 2));
  EXPECT_EQ(hops("waterfill:4", Topology::kDirect, 1), 0u);
}

TEST(TrafficModel, SeparatesTrafficWithinAHostGroup) {
  const std::uint32_t ranks = 8;
  const auto whole = model_traffic(
      {.codec = "waterfill:4", .topology = Topology::kHierarchical, .host_group_size = 4}, kShapes,
      ranks);
  ASSERT_TRUE(whole);
  // A full-precision sum over the four, and a compressed one of a quarter over two.
  EXPECT_EQ(whole->inside_hops, 2u);
  EXPECT_GT(whole->inside_bytes, whole->bytes * 9 / 10);
  const auto flat =
      model_traffic({.codec = "waterfill:4", .topology = Topology::kDirect}, kShapes, ranks);
  ASSERT_TRUE(flat);
  EXPECT_EQ(flat->inside_bytes, 0u);
  EXPECT_EQ(flat->inside_hops, 0u);
  EXPECT_LT((whole->bytes - whole->inside_bytes) * 5, flat->bytes);
}

TEST(TrafficModel, RejectsTheOptionsThatAllReduceRejects) {
  const auto message = [](const AllReduceOptions& options, const ParameterShape& shape) {
    const auto predicted = model_traffic(options, std::span(&shape, 1), 4);
    return predicted ? "" : predicted.status().message();
  };
  EXPECT_THAT(message({.codec = "waterfil:4"}, {.count = 10}), HasSubstr("did you mean"));
  EXPECT_THAT(message({.codec = "powersgd"}, {.count = 10}), HasSubstr("number of terms"));
  EXPECT_THAT(message({.codec = "powersgd:2"}, {.count = 10, .rows = 3}), HasSubstr("3 rows"));
  EXPECT_THAT(message({.topology = Topology::kHierarchical, .host_group_size = 3}, {.count = 10}),
              HasSubstr("groups of 3"));
}

}  // namespace
}  // namespace nf
