#include "peer_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace nf::torch_front {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Duration time_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

class PeerEventsTest : public testing::Test {
 protected:
  PeerEvents::Verdict verdict() {
    const std::lock_guard lock(events_.mutex());
    return events_.verdict(pending_);
  }

  PeerEvents events_;
  Transfer transfer_{.peer = 1, .bytes = {}};
  std::vector<PendingTransfer> pending_ = {{&transfer_, 1}};
};

TEST_F(PeerEventsTest, HandsOverCompletedTransfersInOrder) {
  Transfer other;
  events_.add_done(other);
  events_.add_done(transfer_);
  const std::lock_guard lock(events_.mutex());
  EXPECT_THAT(events_.done(), ElementsAre(&other, &transfer_));
}

TEST_F(PeerEventsTest, HasNoVerdictWithoutEvents) {
  EXPECT_TRUE(verdict().status.ok());
  EXPECT_EQ(verdict().moment, Duration::max());
  EXPECT_TRUE(events_.first_missed(0, {}).ok());
}

TEST_F(PeerEventsTest, DelaysAFailedTransferUntilANoticeCouldArrive) {
  const Duration before = time_now();
  events_.add_failed(1, "Connection closed by peer");
  EXPECT_EQ(verdict().status.code(), ErrorCode::kPeerLost);
  EXPECT_THAT(verdict().status.message(), HasSubstr("rank 1 is gone: Connection closed by peer"));
  EXPECT_GT(verdict().moment, before + std::chrono::milliseconds(100));
}

TEST_F(PeerEventsTest, PrefersTheReasonOfANoticeToAFailedTransfer) {
  events_.add_failed(1, "Connection closed by peer");
  events_.add_aborted(1, "rank 1 aborted: corrupt_frame: no such code");
  EXPECT_EQ(verdict().status.code(), ErrorCode::kAborted);
  EXPECT_EQ(verdict().status.message(), "rank 1 aborted: corrupt_frame: no such code");
  EXPECT_LE(verdict().moment, time_now());
}

TEST_F(PeerEventsTest, KeepsTheFirstFailedTransfer) {
  events_.add_failed(1, "first");
  events_.add_failed(2, "second");
  EXPECT_THAT(verdict().status.message(), HasSubstr("rank 1 is gone: first"));
}

TEST_F(PeerEventsTest, GivesMessagesBeforeANoticeTimeToArrive) {
  const Duration before = time_now();
  events_.add_aborted(1, "rank 1 aborted");
  EXPECT_EQ(verdict().status.code(), ErrorCode::kAborted);
  EXPECT_GT(verdict().moment, before + std::chrono::milliseconds(100));
}

TEST_F(PeerEventsTest, IgnoresTheNoticeOfAPeerWithoutPendingTransfers) {
  events_.add_aborted(2, "rank 2 aborted");
  EXPECT_TRUE(verdict().status.ok());
}

TEST_F(PeerEventsTest, FindsTheFirstPeerThatMissesAStep) {
  events_.add_shutdown(2, 5);
  EXPECT_TRUE(events_.first_missed(4, {}).ok());
  EXPECT_THAT(events_.first_missed(5, {}).message(), HasSubstr("after 5 steps"));
  events_.add_lost(1, "Connection closed by peer");
  EXPECT_THAT(events_.first_missed(4, {}).message(), HasSubstr("rank 1 is gone"));
  EXPECT_THAT(events_.first_missed(5, {}).message(), HasSubstr("rank 2 is gone"));
}

TEST_F(PeerEventsTest, WaitsForAPeerToMissAStep) {
  const std::jthread other([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    events_.add_lost(1, "Connection closed by peer");
  });
  EXPECT_EQ(events_.first_missed(0, std::chrono::seconds(30)).code(), ErrorCode::kPeerLost);
}

TEST_F(PeerEventsTest, WakesAWaitingUser) {
  const std::jthread other([this] { events_.add_done(transfer_); });
  const Duration deadline = time_now() + std::chrono::seconds(30);
  std::unique_lock lock(events_.mutex());
  while (events_.done().empty() && time_now() < deadline) events_.wait(lock, deadline);
  EXPECT_THAT(events_.done(), ElementsAre(&transfer_));
}

}  // namespace
}  // namespace nf::torch_front
