// The statistics of all ranks are combined in rank order, however they travel.
#include "collective/statistics_stage.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "base/checksum.h"
#include "support/virtual_ranks.h"

namespace nf {
namespace {

constexpr std::size_t kGranule = 4;
constexpr std::size_t kEntry = 8;  // bytes per granule

// The combined bytes depend on the bytes of every rank and on their order.
class Chained final : public StatisticsKind {
 public:
  std::size_t granule() const override { return kGranule; }
  std::size_t size(std::size_t count) const override {
    return (count + kGranule - 1) / kGranule * kEntry;
  }
  Status combine(std::size_t count, std::span<const std::span<const std::byte>> by_rank,
                 std::span<std::byte> combined) const override {
    for (std::size_t at = 0; at < size(count); at += kEntry) {
      std::uint64_t chained = 0;
      for (const auto& own : by_rank) chained = checksum(own.subspan(at, kEntry), chained);
      std::memcpy(combined.data() + at, &chained, kEntry);
    }
    return {};
  }
};

const Chained kChained;

// The statistics of one rank: two parts, the first with two parameters.
struct Rank {
  Rank(VirtualNetwork& network, std::uint32_t rank, std::size_t count)
      : transport(network.endpoint(rank)) {
    for (const std::size_t values : {count, std::size_t{5}, count / 3}) {
      bytes.emplace_back(kChained.size(values));
      for (std::size_t i = 0; i < bytes.back().size(); ++i) {
        bytes.back()[i] = static_cast<std::byte>(rank * 31 + i * 7 + bytes.size());
      }
    }
    spans.assign(bytes.begin(), bytes.end());
    pieces = {{.parameter = 0, .first = 0, .count = count},
              {.parameter = 1, .first = 0, .count = 5},
              {.parameter = 0, .first = 0, .count = count / 3}};
    parts = {{.kind = &kChained,
              .domain = std::span(pieces).first(2),
              .by_parameter = std::span(spans).first(2)},
             {.kind = &kChained,
              .domain = std::span(pieces).subspan(2),
              .by_parameter = std::span(spans).subspan(2)}};
  }

  test::CountingTransport transport;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::span<std::byte>> spans;
  std::vector<Piece> pieces;
  std::vector<StatisticsPart> parts;
  StatisticsStage stage;
};

std::vector<std::unique_ptr<Rank>> make_ranks(VirtualNetwork& network, std::uint32_t ranks,
                                              std::size_t count) {
  std::vector<std::unique_ptr<Rank>> all;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    all.push_back(std::make_unique<Rank>(network, rank, count));
  }
  return all;
}

void run(VirtualNetwork& network, std::vector<std::unique_ptr<Rank>>& ranks) {
  for (const auto& rank : ranks) {
    ASSERT_TRUE(rank->stage.start(rank->transport, rank->parts, {.codec = 1, .step = 2}).ok());
  }
  test::advance_all(network, static_cast<std::uint32_t>(ranks.size()),
                    [&](std::uint32_t rank) -> Expected<bool> {
                      NF_RETURN_IF_ERROR(ranks[rank]->transport.progress());
                      return ranks[rank]->stage.advance();
                    });
}

std::vector<std::vector<std::byte>> expected_of(const std::vector<std::unique_ptr<Rank>>& ranks) {
  std::vector<std::vector<std::byte>> expected = ranks[0]->bytes;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::vector<std::span<const std::byte>> by_rank;
    for (const auto& rank : ranks) by_rank.push_back(rank->bytes[i]);
    EXPECT_TRUE(
        kChained.combine(expected[i].size() / kEntry * kGranule, by_rank, expected[i]).ok());
  }
  return expected;
}

TEST(StatisticsStage, CombinesInRankOrderOnAllRanks) {
  for (const std::uint32_t ranks : {2u, 3u, 7u, 32u, 33u, 48u, 64u, 65u, 100u, 129u}) {
    // Also with fewer granules than ranks.
    for (const std::size_t count : {std::size_t{1}, std::size_t{90}, std::size_t{3001}}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " values");
      VirtualNetwork network(ranks, {.bytes_per_second = 1e8, .latency = Duration{1000}});
      auto all = make_ranks(network, ranks, count);
      // The stage is used again, as from step to step.
      for (int call = 0; call < 2; ++call) {
        const auto expected = expected_of(all);
        run(network, all);
        for (const auto& rank : all) ASSERT_EQ(rank->bytes, expected);
      }
    }
  }
}

TEST(StatisticsStage, SendsFewMessagesAmongManyRanks) {
  const auto messages_of = [](std::uint32_t ranks) {
    VirtualNetwork network(ranks, {});
    auto all = make_ranks(network, ranks, 2000);
    run(network, all);
    std::uint64_t most = 0;
    for (const auto& rank : all) {
      most = std::max(most, rank->transport.messages());
      EXPECT_EQ(rank->stage.bytes_sent(0) + rank->stage.bytes_sent(1), rank->transport.bytes());
    }
    return most;
  };
  EXPECT_EQ(messages_of(32), 2 * 31u);
  EXPECT_EQ(messages_of(33), 2 * 8u);
  EXPECT_EQ(messages_of(64), 2 * 9u);
  EXPECT_EQ(messages_of(256), 2 * 12u);
}

TEST(StatisticsStage, TakesTheLatencyOfItsRounds) {
  constexpr Duration kLatency = std::chrono::microseconds(50);
  const auto latencies = [&](std::uint32_t ranks) {
    VirtualNetwork network(ranks, {.bytes_per_second = 1e15, .latency = kLatency});
    auto all = make_ranks(network, ranks, 2000);
    run(network, all);
    return network.now() / kLatency;
  };
  EXPECT_EQ(latencies(32), 2);
  EXPECT_EQ(latencies(64), 2 * 3);
  EXPECT_EQ(latencies(65), 2 * 4);
}

TEST(StatisticsStage, NamesTheRanksThatItWaitsFor) {
  constexpr std::uint32_t kRanks = 40;
  VirtualNetwork network(kRanks, {});
  auto all = make_ranks(network, kRanks, 100);
  // All ranks but 39 start. Rank 0 gets its first messages from ranks 39, 38 and 37.
  for (std::uint32_t rank = 0; rank + 1 < kRanks; ++rank) {
    ASSERT_TRUE(all[rank]->stage.start(all[rank]->transport, all[rank]->parts, {}).ok());
  }
  while (network.step()) {
    for (const std::uint32_t rank : network.ready_ranks()) {
      ASSERT_TRUE(all[rank]->transport.progress().ok());
      const Expected<bool> is_done = all[rank]->stage.advance();
      ASSERT_TRUE(is_done);
      EXPECT_FALSE(*is_done);
    }
  }
  EXPECT_EQ(all[0]->stage.waiting_for(), "statistics from rank 39");
}

}  // namespace
}  // namespace nf
