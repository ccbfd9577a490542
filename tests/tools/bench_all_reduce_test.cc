#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "nf/bench/all_reduce_request.h"
#include "nf/bench/all_reduce_values.h"
#include "nf/bench/rank_sync.h"
#include "support/ranks.h"

namespace nf::cli {
namespace {

constexpr std::uint32_t kRanks = 3;

TEST(AllReduceRequest, SurvivesSerialization) {
  const AllReduceRequest request{.collective = "reduce_scatter",
                                 .begin = "4K",
                                 .end = "1G",
                                 .factor = 8,
                                 .codecs = {"waterfill:4", "c10d_fp32"},
                                 .topologies = {"tree", "hierarchical"},
                                 .transport = "c10d",
                                 .host_group_size = 2,
                                 .dtype = "bf16",
                                 .repeat = 7,
                                 .tile = "64K",
                                 .as_json = true};
  const Expected<AllReduceRequest> parsed = parse_request(to_text(request));
  ASSERT_TRUE(parsed) << to_string(parsed.status());
  EXPECT_EQ(*parsed, request);
  const Expected<AllReduceRequest> defaults = parse_request("{}");
  ASSERT_TRUE(defaults) << to_string(defaults.status());
  EXPECT_EQ(*defaults, AllReduceRequest{});
}

TEST(AllReduceRequest, RejectsMalformedText) {
  for (const char* text : {"", "fp32", "[1]", R"({"codecs": 4})", R"({"repeat": "often"})"}) {
    EXPECT_EQ(parse_request(text).status().code(), ErrorCode::kInvalidArgument) << text;
  }
}

TEST(AllReduceRequest, MeasuresNativeAllReducesOncePerSize) {
  const Expected<AllReduceBench> bench = make_bench({.begin = "1K",
                                                     .end = "4K",
                                                     .codecs = {"fp32", "c10d_bf16"},
                                                     .topologies = {"ring", "direct"},
                                                     .transport = "c10d"});
  ASSERT_TRUE(bench) << to_string(bench.status());
  ASSERT_EQ(bench->cases.size(), 6u);
  EXPECT_EQ(bench->cases[1].topology, Topology::kDirect);
  EXPECT_EQ(bench->cases[2].codec, "c10d_bf16");
  EXPECT_FALSE(bench->cases[2].topology);
  EXPECT_EQ(bench->cases[5].count, 1024u);
}

TEST(AllReduceRequest, RejectsWhatItsCollectiveDoesNotSupport) {
  const auto code = [](const AllReduceRequest& request) {
    return make_bench(request).status().code();
  };
  EXPECT_EQ(code({.collective = "all_gather"}), ErrorCode::kBadConfig);
  EXPECT_EQ(code({.collective = "reduce_scatter", .topologies = {"tree"}}), ErrorCode::kBadConfig);
  EXPECT_EQ(code({.collective = "reduce_scatter", .codecs = {"mpi_fp32"}, .transport = "mpi"}),
            ErrorCode::kBadConfig);
}

TEST(RankSync, GathersToAndBroadcastsFromRankZero) {
  test::on_all_ranks(kRanks, [](Transport& transport) {
    RankSync sync(transport);
    const auto all = sync.gather(transport.rank() + 10);
    ASSERT_TRUE(all) << to_string(all.status());
    EXPECT_EQ(*all, transport.rank() == 0 ? (std::vector<std::uint32_t>{10, 11, 12})
                                          : std::vector<std::uint32_t>{});
    std::uint32_t value = transport.rank() + 20;
    const Status status = sync.share(value);
    ASSERT_TRUE(status.ok()) << to_string(status);
    EXPECT_EQ(value, 20u);
    EXPECT_TRUE(sync.barrier().ok());
  });
}

TEST(RankSync, CountsEachDifferingElementOnce) {
  constexpr std::size_t kCount = 5'000'000;  // more than one block of the comparison
  test::on_all_ranks(kRanks, [](Transport& transport) {
    std::vector<float> values(kCount, 1.0f);
    if (transport.rank() == 1) values[0] = 2.0f;
    if (transport.rank() == 2) values[0] = values[kCount - 1] = 3.0f;
    const auto differences =
        RankSync(transport).count_differences(std::as_bytes(std::span(values)), sizeof(float));
    ASSERT_TRUE(differences) << to_string(differences.status());
    EXPECT_EQ(*differences, transport.rank() == 0 ? 2u : 0u);
  });
}

TEST(RankSync, FailsIfARankHasLeft) {
  test::on_all_ranks(2, [](Transport& transport) {
    if (transport.rank() == 1) return;
    EXPECT_EQ(RankSync(transport).barrier().code(), ErrorCode::kPeerLost);
  });
}

TEST(BenchGradient, ReportsTheErrorOfASumWithoutOneRank) {
  std::vector<float> sum(1000);
  BenchGradient first(0, 2, sum.size());
  first.put(Values(sum));
  const double one_of_two = first.vnmse(ConstValues(sum));
  EXPECT_GT(one_of_two, 0.05);
  EXPECT_LT(one_of_two, 1);

  std::vector<float> other(sum.size());
  BenchGradient(1, 2, sum.size()).put(Values(other));
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  EXPECT_LT(first.vnmse(ConstValues(sum)), 1e-14);
}

TEST(BenchGradient, ComparesBfloat16SumsWithSumsOfRoundedValues) {
  std::vector<std::uint16_t> sum(700);
  BenchGradient gradient(0, 1, 1000);
  gradient.put(Values(sum.data(), sum.size(), DataType::kBfloat16));
  EXPECT_EQ(gradient.vnmse(ConstValues(sum.data(), sum.size(), DataType::kBfloat16)), 0);
}

TEST(Integers, CountWrongElementsOfTheSum) {
  std::array<std::vector<float>, kRanks> by_rank;
  std::vector<float> sum(500, 0.0f);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    by_rank[rank].resize(sum.size());
    fill_integers(rank, Values(by_rank[rank]));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += by_rank[rank][i];
  }
  EXPECT_NE(by_rank[0], by_rank[1]);
  EXPECT_EQ(count_wrong_integers(kRanks, ConstValues(sum)), 0u);
  sum[3] += 1;
  sum[400] += 0.5f;
  EXPECT_EQ(count_wrong_integers(kRanks, ConstValues(sum)), 2u);
}

}  // namespace
}  // namespace nf::cli
