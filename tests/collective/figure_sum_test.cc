#include "collective/figure_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "support/ranks.h"
#include "support/virtual_ranks.h"

namespace nf {
namespace {

using testing::HasSubstr;

// Sums whose bits depend on the order.
float figure_of(std::uint32_t rank, std::size_t i) {
  return std::ldexp(1.0f + 0.37f * static_cast<float>((rank * 13 + i * 5) % 17),
                    static_cast<int>(rank % 9) * 3);
}

struct Rank {
  Rank(VirtualNetwork& network, std::uint32_t rank, std::size_t count)
      : transport(network.endpoint(rank)), sum(transport, {}), figures(count) {
    for (std::size_t i = 0; i < count; ++i) figures[i] = figure_of(rank, i);
  }

  test::CountingTransport transport;
  FigureSum sum;
  std::vector<float> figures;
};

TEST(FigureSum, AddsInRankOrderOnAllRanks) {
  for (const std::uint32_t ranks : {1u, 2u, 5u, 32u, 33u, 64u, 100u}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{70}}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " figures");
      VirtualNetwork network(ranks, {.bytes_per_second = 1e8, .latency = Duration{1000}});
      std::vector<std::unique_ptr<Rank>> all;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        all.push_back(std::make_unique<Rank>(network, rank, count));
        ASSERT_TRUE(all[rank]->sum.start({.step = 4}, 7, all[rank]->figures).ok());
      }
      test::advance_all(network, ranks,
                        [&](std::uint32_t rank) { return all[rank]->sum.advance(); });
      std::vector<float> expected(count, 0.0f);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        for (std::size_t i = 0; i < count; ++i) expected[i] += figure_of(rank, i);
      }
      for (const auto& rank : all) ASSERT_EQ(rank->figures, expected);
    }
  }
}

// Agreement and sums: log2 n and 2 * 3 log4 n messages.
TEST(FigureSum, SendsFewMessagesAmongManyRanks) {
  constexpr std::uint32_t kRanks = 256;
  VirtualNetwork network(kRanks, {});
  std::vector<std::unique_ptr<Rank>> all;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    all.push_back(std::make_unique<Rank>(network, rank, 300));
    ASSERT_TRUE(all[rank]->sum.start({}, 7, all[rank]->figures).ok());
  }
  test::advance_all(network, kRanks, [&](std::uint32_t rank) { return all[rank]->sum.advance(); });
  for (const auto& rank : all) EXPECT_EQ(rank->transport.messages(), 8 + 2 * 12u);
}

TEST(FigureSum, FailsOnAllRanksIfTheyDisagreeAndWorksAfterwards) {
  test::on_all_ranks(3, [](Transport& transport) {
    FigureSum sum(transport, {});
    std::vector<float> figures = {1.0f, 2.0f};
    const std::uint64_t step = transport.rank() == 2 ? 9 : 8;
    const Status status = sum.run({.step = step}, 7, figures);
    EXPECT_EQ(status.code(), ErrorCode::kDisagreement);
    EXPECT_THAT(status.message(), HasSubstr("rank 2 has 9"));
    EXPECT_EQ(figures, (std::vector<float>{1.0f, 2.0f}));
    ASSERT_TRUE(sum.run({.step = 10}, 7, figures).ok());
    EXPECT_EQ(figures, (std::vector<float>{3.0f, 6.0f}));
  });
}

TEST(FigureSum, AgreesOnTheLatestLossScale) {
  test::on_all_ranks(4, [](Transport& transport) {
    FigureSum sum(transport, {});
    std::vector<float> figures = {1.0f};
    const bool is_fresh = transport.rank() == 1;
    ASSERT_TRUE(
        sum.run({.loss_scale = is_fresh ? 8.0f : 16.0f, .loss_scale_version = is_fresh ? 2u : 1u},
                7, figures)
            .ok());
    EXPECT_EQ(sum.loss_scale(), (LossScale{.value = 8, .version = 2}));
    EXPECT_EQ(figures[0], 4.0f);
  });
}

TEST(FigureSum, ReportsALostRank) {
  test::on_all_ranks(3, [](Transport& transport) {
    if (transport.rank() == 1) return;
    FigureSum sum(transport, {});
    std::vector<float> figures = {1.0f};
    const Status status = sum.run({.step = 5}, 7, figures);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr("of step 5"));
  });
}

}  // namespace
}  // namespace nf
