// Errors after faults, and that no rank waits forever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>

#include "neuron_fabric/all_reduce.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::gradients_of;
using test::on_all_ranks;
using test::Parameters;
using testing::AnyOf;
using testing::HasSubstr;

constexpr std::uint32_t kRanks = 4;

struct Outcome {
  Status status;
  Parameters result;
};

// Sums on every rank, with faults at rank 2. All ranks start together, and none leaves before all
// have finished.
std::vector<Outcome> run_with(const FaultPlan& faults, Topology topology, const std::string& codec,
                              Duration timeout = std::chrono::seconds(20)) {
  std::vector<Outcome> outcomes(kRanks);
  std::latch ready(kRanks);
  std::latch finished(kRanks);
  on_all_ranks(
      kRanks,
      [&](Transport& transport) {
        Outcome& own = outcomes[transport.rank()];
        own.result = {std::vector<float>(1000, static_cast<float>(transport.rank() + 1)),
                      std::vector<float>(40, 1.0f)};
        const auto sum = AllReduce::create(transport, {.codec = codec,
                                                       .topology = topology,
                                                       .host_group_size = 2,
                                                       .timeout = timeout,
                                                       .tile_bytes = 600});
        ASSERT_TRUE(sum);
        const auto gradients = gradients_of(own.result);
        ready.arrive_and_wait();
        own.status = (*sum)->run({.step = 9, .gradients = gradients});
        finished.arrive_and_wait();
      },
      faults, 2);
  return outcomes;
}

const Parameters kExact = {std::vector<float>(1000, 10.0f), std::vector<float>(40, 4.0f)};

// A rank has either the complete sum or an error.
void expect_whole_or_error(const std::vector<Outcome>& outcomes) {
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    if (outcomes[rank].status.ok()) {
      EXPECT_EQ(outcomes[rank].result, kExact) << "a partial sum on rank " << rank;
    }
  }
}

TEST(AllReduceFailure, AcceptsAnInfiniteTimeout) {
  for (const Outcome& outcome : run_with({}, Topology::kRing, "fp32", Duration::max())) {
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_EQ(outcome.result, kExact);
  }
}

class RankThatDies : public testing::TestWithParam<Topology> {};

TEST_P(RankThatDies, IsReportedByTheOtherRanks) {
  int runs = 0;
  for (std::uint64_t operation = 0;; ++operation) {
    SCOPED_TRACE(operation);
    const auto outcomes =
        run_with({{.operation = operation, .kind = Fault::Kind::kDie}}, GetParam(), "fp32");
    expect_whole_or_error(outcomes);
    if (outcomes[2].status.ok()) break;  // it has no such operation
    ++runs;
    EXPECT_THAT(outcomes[2].status.message(), HasSubstr("died"));
    int failed = 0;
    int naming = 0;
    for (const std::uint32_t rank : {0u, 1u, 3u}) {
      const Status& status = outcomes[rank].status;
      if (status.ok()) continue;
      ++failed;
      EXPECT_THAT(status.code(), AnyOf(ErrorCode::kPeerLost, ErrorCode::kAborted));
      naming += status.message().find("rank 2") != std::string::npos ? 1 : 0;
    }
    // Ranks that need no more messages from rank 2 may succeed. Every failed rank names rank 2,
    // directly or in the reason of a rank that aborted.
    EXPECT_EQ(naming, failed);
  }
  EXPECT_GT(runs, 6);
}

INSTANTIATE_TEST_SUITE_P(Topologies, RankThatDies,
                         testing::ValuesIn(all_topologies().begin(), all_topologies().end()),
                         [](const auto& param) { return std::string(to_string(param.param)); });

class DamagedFrame : public testing::TestWithParam<Topology> {};

TEST_P(DamagedFrame, FailsItsReceiverAndThenTheOthers) {
  for (const Fault::Kind kind : {Fault::Kind::kCorrupt, Fault::Kind::kTruncate}) {
    for (const std::size_t byte : {3u, 45u}) {
      for (std::uint64_t operation = 0;; operation += 1) {
        SCOPED_TRACE(operation);
        const auto outcomes =
            run_with({{.operation = operation, .kind = kind, .byte = byte}}, GetParam(), "fp32");
        expect_whole_or_error(outcomes);
        const auto failed = std::count_if(outcomes.begin(), outcomes.end(),
                                          [](const Outcome& o) { return !o.status.ok(); });
        if (failed == 0) break;  // there is no such operation
        int seen = 0;
        for (const Outcome& outcome : outcomes) {
          const ErrorCode code = outcome.status.code();
          seen += code == ErrorCode::kCorruptFrame || code == ErrorCode::kForeignFrame ? 1 : 0;
        }
        EXPECT_GE(seen, 1);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Topologies, DamagedFrame,
                         testing::Values(Topology::kRing, Topology::kDirect,
                                         Topology::kHierarchical),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST(AllReduceFailure, RejectsAFrameInThePlaceOfAnother) {
  // If a frame is lost, the next one arrives in its place, and the header shows that. Each of these
  // frames is followed by another.
  for (std::uint64_t operation = 4; operation < 20; ++operation) {
    SCOPED_TRACE(operation);
    const auto outcomes =
        run_with({{.operation = operation, .kind = Fault::Kind::kDrop}}, Topology::kRing, "fp32");
    expect_whole_or_error(outcomes);
    EXPECT_EQ(outcomes[3].status.code(), ErrorCode::kForeignFrame) << outcomes[3].status.message();
  }
}

TEST(AllReduceFailure, TimesOutIfAMessageNeverArrives) {
  // All later messages are lost too, so that none arrives in its place.
  const FaultPlan silence(100, {.operation = 10, .kind = Fault::Kind::kDrop});
  const auto outcomes = run_with(silence, Topology::kRing, "fp32", std::chrono::seconds(2));
  int waited = 0;
  for (const Outcome& outcome : outcomes) {
    if (outcome.status.code() != ErrorCode::kDeadlineExceeded) continue;
    ++waited;
    EXPECT_THAT(outcome.status.message(), HasSubstr("waited 2 s for rank"));
    EXPECT_THAT(outcome.status.message(), HasSubstr("step 9"));
  }
  EXPECT_GE(waited, 1);
  expect_whole_or_error(outcomes);
}

TEST(AllReduceFailure, RejectsInvalidOptions) {
  on_all_ranks(3, [](Transport& transport) {
    const auto code = [&](const AllReduceOptions& options) {
      return AllReduce::create(transport, options).status().code();
    };
    EXPECT_EQ(code({.codec = "waterfil:4"}), ErrorCode::kBadConfig);
    EXPECT_EQ(code({.codec = "powersgd"}), ErrorCode::kBadConfig);
    EXPECT_EQ(code({.codec = "powersgd:1.5"}), ErrorCode::kBadConfig);
    EXPECT_EQ(code({.topology = Topology::kHierarchical, .host_group_size = 2}),
              ErrorCode::kBadConfig);
    EXPECT_EQ(code({.topology = Topology::kHierarchical}), ErrorCode::kBadConfig);
  });
}

}  // namespace
}  // namespace nf
