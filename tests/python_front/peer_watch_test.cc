#include "peer_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <string>

#include "gloo_ranks.h"

namespace nf::torch_front {
namespace {

using test::GlooRank;
using test::on_gloo_ranks;
using testing::EndsWith;
using testing::HasSubstr;

constexpr std::uint64_t kStep = 7;
constexpr Duration kTimeout = std::chrono::seconds(10);

PeerWatch watch_of(const GlooRank& own) {
  return {
      {.training = {}, .own = {}, .store = own.store, .prefix = "job"}, *own.transport, kTimeout};
}

TEST(PeerWatch, IsSilentWhileAllRanksAreWell) {
  on_gloo_ranks(2, [](GlooRank& own) {
    PeerWatch watch = watch_of(own);
    EXPECT_TRUE(watch.check_peers(kStep, Duration::zero()).ok());
    EXPECT_FALSE(watch.has_acknowledged(kStep));
    EXPECT_FALSE(watch.has_failed());
  });
}

// Ranks that have waited for half the timeout acknowledge the step; a rank that has not is the one
// all wait for.
TEST(PeerWatch, NamesTheRankThatAllWaitFor) {
  std::latch acknowledged(2);
  on_gloo_ranks(3, [&](GlooRank& own) {
    if (own.transport->rank() == 2) return;
    PeerWatch watch = watch_of(own);
    EXPECT_TRUE(watch.check_peers(kStep, kTimeout * 3 / 4).ok());
    EXPECT_TRUE(watch.has_acknowledged(kStep));
    acknowledged.arrive_and_wait();
    const Status late = watch.check_peers(kStep, kTimeout);
    EXPECT_EQ(late.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(late.message(), EndsWith("for rank 2"));
  });
}

TEST(PeerWatch, ClearsItsAcknowledgementWhenAStepEnds) {
  std::latch cleared(2);
  on_gloo_ranks(2, [&](GlooRank& own) {
    PeerWatch watch = watch_of(own);
    EXPECT_TRUE(watch.check_peers(kStep, kTimeout * 3 / 4).ok());
    watch.step_ended(kStep);
    cleared.arrive_and_wait();
    FailureStore failures(own.store, "job");
    EXPECT_THAT(failures.missing(2, kStep), testing::Optional(testing::SizeIs(2)));
  });
}

TEST(PeerWatch, StopsWaitingWhenAnotherRankHasReportedAFailure) {
  std::latch reported(2);
  on_gloo_ranks(2, [&](GlooRank& own) {
    PeerWatch watch = watch_of(own);
    const bool fails = own.transport->rank() == 1;
    if (fails) watch.describe("step 7", {ErrorCode::kCorruptFrame, "no such code"});
    reported.arrive_and_wait();
    EXPECT_EQ(watch.has_failed(), fails);
    EXPECT_EQ(watch.check_peers(kStep, Duration::zero()).code(), ErrorCode::kAborted);
  });
}

TEST(PeerWatch, DescribesItsFirstFailureAndThatOfTheFirstRank) {
  std::latch reported(2);
  on_gloo_ranks(2, [&](GlooRank& own) {
    PeerWatch watch = watch_of(own);
    if (own.transport->rank() == 1) {
      const std::string first = watch.describe("step 7", {ErrorCode::kCorruptFrame, "damaged"});
      EXPECT_EQ(first, "step 7, rank 1: damaged");
      EXPECT_EQ(watch.describe("step 8", {ErrorCode::kAborted, "later"}), first);
      return reported.arrive_and_wait();
    }
    reported.arrive_and_wait();
    EXPECT_EQ(watch.describe("step 7", {ErrorCode::kAborted, "rank 1 aborted"}),
              "step 7, rank 0: rank 1 aborted; first seen at step 7, rank 1: damaged");
  });
}

TEST(PeerWatch, NamesTheLostRankInAFailureOfTheEngine) {
  on_gloo_ranks(2, [](GlooRank& own) {
    if (own.transport->rank() == 1) return own.transport.reset();
    PeerWatch watch = watch_of(own);
    const Status status = watch.engine_failure(kStep, "NCCL error", std::chrono::seconds(30));
    EXPECT_EQ(status.code(), ErrorCode::kPeerLost);
    EXPECT_THAT(status.message(), HasSubstr("rank 1 is gone"));
  });
}

}  // namespace
}  // namespace nf::torch_front
