// Errors of a reduce-scatter, and that no rank waits forever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <string>
#include <vector>

#include "support/shards.h"

namespace nf {
namespace {

using test::on_all_ranks;
using test::Shards;
using test::ShardViews;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint32_t kRanks = 4;
constexpr Topology kTopologies[] = {Topology::kDirect, Topology::kRing, Topology::kHierarchical};

Shards ones(const std::vector<std::size_t>& counts) {
  Shards shards;
  for (const std::size_t count : counts) shards.push_back({std::vector<float>(count, 1.0f)});
  return shards;
}

AllReduceOptions options_of(Topology topology, const std::string& codec = "waterfill:4") {
  return {.codec = codec,
          .topology = topology,
          .host_group_size = topology == Topology::kHierarchical ? 2u : 0u,
          .timeout = std::chrono::seconds(20),
          .tile_bytes = 600};
}

const std::vector<std::size_t> kSizes = {1000, 700, 0, 300};

// The statuses of a call in which rank 2 has shards of `differing` sizes. Values must not change,
// and the next call must succeed.
std::vector<Status> statuses_if_one_differs(const std::vector<std::size_t>& differing,
                                            Topology topology) {
  std::vector<Status> statuses(kRanks);
  on_all_ranks(kRanks, [&](Transport& transport) {
    const auto sum = ReduceScatter::create(transport, options_of(topology));
    ASSERT_TRUE(sum) << to_string(sum.status());
    Shards values = ones(transport.rank() == 2 ? differing : kSizes);
    const Shards before = values;
    statuses[transport.rank()] = (*sum)->run({.step = 5, .shards = ShardViews(values).shards()});
    EXPECT_EQ(values, before);

    Shards same = ones(kSizes);
    const Status again = (*sum)->run({.step = 6, .shards = ShardViews(same).shards()});
    EXPECT_TRUE(again.ok()) << to_string(again);
  });
  return statuses;
}

TEST(ReduceScatterFailure, ReportsDifferentShardsOnEveryRank) {
  for (const Topology topology : kTopologies) {
    for (const Status& status : statuses_if_one_differs({1000, 700, 1, 300}, topology)) {
      EXPECT_EQ(status.code(), ErrorCode::kDisagreement);
      EXPECT_THAT(status.message(), HasSubstr("value count"));
    }
    // The same number of values, in other shards, or in another number of shards.
    for (const std::vector<std::size_t>& differing : {std::vector<std::size_t>{1000, 701, 0, 299},
                                                      {1000, 700, 300, 0},
                                                      {1000, 700, 300},
                                                      {1000, 700, 0, 300, 0}}) {
      for (const Status& status : statuses_if_one_differs(differing, topology)) {
        EXPECT_EQ(status.code(), ErrorCode::kDisagreement);
        EXPECT_THAT(status.message(), HasSubstr("their shards differ in number"));
      }
    }
  }
}

TEST(ReduceScatterFailure, RejectsAnotherNumberOfShardsThanRanks) {
  for (const std::uint32_t ranks : {1u, 3u}) {
    on_all_ranks(ranks, [](Transport& transport) {
      const auto sum = ReduceScatter::create(transport, options_of(Topology::kDirect));
      Shards values = ones(kSizes);
      const Status status = (*sum)->run({.step = 5, .shards = ShardViews(values).shards()});
      EXPECT_THAT(status.code(), AnyOf(ErrorCode::kInvalidArgument, ErrorCode::kAborted));
      EXPECT_THAT(status.message(), HasSubstr("4 shards"));
      EXPECT_EQ(values, ones(kSizes));
    });
  }
}

TEST(ReduceScatterFailure, ReportsAnAllReduceOnAnotherRank) {
  for (const char* codec : {"waterfill:4", "powersgd:2"}) {
    on_all_ranks(kRanks, [codec](Transport& transport) {
      Shards values = ones(kSizes);
      Status status;
      if (transport.rank() == 1) {
        const auto sum = AllReduce::create(transport, options_of(Topology::kDirect, codec));
        std::vector<Gradient> gradients;
        for (test::Parameters& shard : values) {
          gradients.push_back({.parameter = 1, .values = Values(shard.front())});
        }
        status = (*sum)->run({.step = 5, .gradients = gradients});
      } else {
        const auto sum = ReduceScatter::create(transport, options_of(Topology::kDirect));
        status = (*sum)->run({.step = 5, .shards = ShardViews(values).shards()});
      }
      EXPECT_EQ(status.code(), ErrorCode::kDisagreement);
      EXPECT_THAT(status.message(),
                  AnyOf("rank 0 has collective reduce_scatter, rank 1 has all_reduce",
                        "rank 1 has collective all_reduce, rank 2 has reduce_scatter",
                        "rank 1 has collective all_reduce, rank 3 has reduce_scatter"));
      EXPECT_EQ(values, ones(kSizes));
    });
  }
}

TEST(ReduceScatterFailure, RejectsInvalidOptions) {
  on_all_ranks(3, [](Transport& transport) {
    const auto status = [&](const AllReduceOptions& options) {
      const Status failure = ReduceScatter::create(transport, options).status();
      EXPECT_EQ(failure.code(), ErrorCode::kBadConfig) << options.codec;
      return failure.message();
    };
    for (const Topology topology :
         {Topology::kTree, Topology::kHalvingDoubling, Topology::kEndpoint}) {
      EXPECT_THAT(status({.topology = topology}),
                  AllOf(HasSubstr(to_string(topology)),
                        HasSubstr("supported are ring, direct, hierarchical")));
    }
    EXPECT_THAT(status({.codec = "powersgd:2"}), HasSubstr("powersgd"));
    EXPECT_THAT(status({.codec = "waterfil:4"}), HasSubstr("did you mean 'waterfill'"));
    EXPECT_THAT(status({.topology = Topology::kHierarchical, .host_group_size = 2}),
                HasSubstr("do not divide"));
  });
}

struct Outcome {
  Status status;
  Shards values;
};

// Sums on every rank, with faults at rank 2. All ranks start together, and none leaves before all
// have finished.
std::vector<Outcome> run_with(const FaultPlan& faults, Topology topology,
                              Duration timeout = std::chrono::seconds(20)) {
  std::vector<Outcome> outcomes(kRanks);
  std::latch ready(kRanks);
  std::latch finished(kRanks);
  on_all_ranks(
      kRanks,
      [&](Transport& transport) {
        Outcome& own = outcomes[transport.rank()];
        own.values = ones(kSizes);
        AllReduceOptions options = options_of(topology, "fp32");
        options.timeout = timeout;
        const auto sum = ReduceScatter::create(transport, options);
        ASSERT_TRUE(sum);
        const ShardViews views(own.values);
        ready.arrive_and_wait();
        own.status = (*sum)->run({.step = 9, .shards = views.shards()});
        finished.arrive_and_wait();
      },
      faults, 2);
  return outcomes;
}

// A rank has either its complete sum or an error.
void expect_whole_or_error(const std::vector<Outcome>& outcomes) {
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    if (!outcomes[rank].status.ok()) {
      EXPECT_THAT(outcomes[rank].status.message(), StartsWith("reduce_scatter of step 9 on rank"));
      continue;
    }
    EXPECT_EQ(outcomes[rank].values[rank].front(), std::vector<float>(kSizes[rank], 4.0f)) << rank;
  }
}

class FaultyRank : public testing::TestWithParam<Topology> {};

TEST_P(FaultyRank, IsReportedByTheOtherRanksIfItDies) {
  int runs = 0;
  for (std::uint64_t operation = 0;; ++operation) {
    SCOPED_TRACE(operation);
    const auto outcomes =
        run_with({{.operation = operation, .kind = Fault::Kind::kDie}}, GetParam());
    expect_whole_or_error(outcomes);
    if (outcomes[2].status.ok()) break;  // it has no such operation
    ++runs;
    for (const std::uint32_t rank : {0u, 1u, 3u}) {
      const Status& status = outcomes[rank].status;
      if (status.ok()) continue;  // it needs no more messages from rank 2
      EXPECT_THAT(status.code(), AnyOf(ErrorCode::kPeerLost, ErrorCode::kAborted));
      EXPECT_THAT(status.message(), HasSubstr("rank 2"));
    }
  }
  EXPECT_GT(runs, 6);
}

TEST_P(FaultyRank, FailsItsReceiverIfAFrameIsDamaged) {
  int runs = 0;
  for (const Fault::Kind kind : {Fault::Kind::kCorrupt, Fault::Kind::kTruncate}) {
    for (std::uint64_t operation = 0;; ++operation) {
      SCOPED_TRACE(operation);
      const auto outcomes =
          run_with({{.operation = operation, .kind = kind, .byte = 40}}, GetParam());
      expect_whole_or_error(outcomes);
      int failed = 0;
      int seen = 0;
      for (const Outcome& outcome : outcomes) {
        const ErrorCode code = outcome.status.code();
        failed += outcome.status.ok() ? 0 : 1;
        seen += code == ErrorCode::kCorruptFrame || code == ErrorCode::kForeignFrame ? 1 : 0;
      }
      if (failed == 0) break;  // there is no such operation
      ++runs;
      EXPECT_GE(seen, 1);
    }
  }
  EXPECT_GT(runs, 6);
}

INSTANTIATE_TEST_SUITE_P(Topologies, FaultyRank, testing::ValuesIn(kTopologies),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST(ReduceScatterFailure, TimesOutIfAMessageNeverArrives) {
  const FaultPlan silence(100, {.operation = 6, .kind = Fault::Kind::kDrop});
  const auto outcomes = run_with(silence, Topology::kDirect, std::chrono::seconds(1));
  int waited = 0;
  for (const Outcome& outcome : outcomes) {
    if (outcome.status.code() != ErrorCode::kDeadlineExceeded) continue;
    ++waited;
    EXPECT_THAT(outcome.status.message(), HasSubstr("waited 1 s for rank 2"));
  }
  EXPECT_GE(waited, 1);
  expect_whole_or_error(outcomes);
}

}  // namespace
}  // namespace nf
