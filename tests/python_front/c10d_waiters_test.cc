#include "c10d_waiters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "own_threads.h"

namespace nf::torch_front {
namespace {

using test::count_threads;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

constexpr std::chrono::seconds kPatience{30};

// Completes when the test says so. Like Gloo's, an abort interrupts one wait, and completes
// nothing.
class FakeWork : public c10d::Work {
 public:
  FakeWork() { ++alive; }
  ~FakeWork() override { --alive; }

  bool wait(std::chrono::milliseconds /*timeout*/) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_done_ || is_aborted_; });
    if (std::exchange(is_aborted_, false)) return false;
    if (fails_) throw std::runtime_error("Connection closed by peer\nbacktrace");
    return true;
  }
  void abort() override { set(is_aborted_); }
  void complete() { set(is_done_); }
  void fail() {
    fails_ = true;
    complete();
  }

  static inline std::atomic<int> alive = 0;

 private:
  void set(bool& flag) {
    {
      const std::lock_guard lock(mutex_);
      flag = true;
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_done_ = false;
  bool is_aborted_ = false;
  std::atomic<bool> fails_ = false;
};

class C10dWaitersTest : public testing::Test {
 protected:
  // One channel per transfer.
  void start(std::size_t channels) {
    transfers_.resize(channels);
    for (std::size_t i = 0; i < channels; ++i) {
      transfers_[i].peer = static_cast<std::uint32_t>(i);
      add(transfers_[i]);
    }
  }
  void add(Transfer& transfer) {
    works_.push_back(c10::make_intrusive<FakeWork>());
    waiters_.add(Direction::kReceive, works_.back(), transfer);
  }

  // The next `count` completed transfers; waits for them in turns, as a transport does.
  std::vector<Transfer*> take(std::size_t count) {
    std::vector<Transfer*> taken;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    std::unique_lock lock(events_.mutex());
    while (taken.size() < count && std::chrono::steady_clock::now() < deadline) {
      taken.insert(taken.end(), events_.done().begin(), events_.done().end());
      events_.done().clear();
      if (taken.size() == count) break;
      if (waiters_.is_crowded()) waiters_.rotate();
      events_.wait(lock, now() + std::chrono::milliseconds(1));
    }
    return taken;
  }

  static Duration now() { return std::chrono::steady_clock::now().time_since_epoch(); }

  PeerEvents events_;
  std::vector<Transfer> transfers_;
  std::vector<c10::intrusive_ptr<FakeWork>> works_;
  C10dWaiters waiters_{events_};
};

TEST_F(C10dWaitersTest, ReportsTheTransfersOfAChannelInOrder) {
  Transfer first{.peer = 3, .bytes = {}};
  Transfer second{.peer = 3, .bytes = {}};
  add(first);
  add(second);
  for (const auto& work : works_) work->complete();
  EXPECT_THAT(take(2), ElementsAre(&first, &second));
  EXPECT_EQ(count_threads("nf_waiter"), 1);
}

TEST_F(C10dWaitersTest, ReportsChannelsIndependently) {
  start(C10dWaiters::kMaxThreads);
  EXPECT_FALSE(waiters_.is_crowded());
  works_.back()->complete();
  EXPECT_THAT(take(1), ElementsAre(&transfers_.back()));
}

TEST_F(C10dWaitersTest, FindsACompletedTransferAmongMoreChannelsThanThreads) {
  start(20 * C10dWaiters::kMaxThreads);
  for (const std::size_t i : {transfers_.size() - 1, std::size_t{0}, transfers_.size() / 2}) {
    works_[i]->complete();
    EXPECT_THAT(take(1), ElementsAre(&transfers_[i]));
  }
  EXPECT_EQ(count_threads("nf_waiter"), static_cast<int>(C10dWaiters::kMaxThreads));
}

TEST_F(C10dWaitersTest, LosesNoTransferWhileThreadsTakeTurns) {
  constexpr std::size_t kPerChannel = 20;
  constexpr std::size_t kChannels = 4 * C10dWaiters::kMaxThreads;
  transfers_.resize(kPerChannel * kChannels);
  std::vector<Transfer*> expected;
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    transfers_[i].peer = static_cast<std::uint32_t>(i % kChannels);
    expected.push_back(&transfers_[i]);
    add(transfers_[i]);
  }
  std::vector<c10::intrusive_ptr<FakeWork>> order = works_;
  std::ranges::shuffle(order, std::mt19937(1));
  const std::jthread peers([&order] {
    for (const auto& work : order) {
      work->complete();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  EXPECT_THAT(take(transfers_.size()), UnorderedElementsAreArray(expected));
}

TEST_F(C10dWaitersTest, ReportsAFailedTransferWithItsPeer) {
  start(2);
  works_[1]->fail();
  const PendingTransfer pending{&transfers_[1], 1};
  const auto deadline = now() + kPatience;
  std::unique_lock lock(events_.mutex());
  while (events_.verdict({&pending, 1}).status.ok() && now() < deadline) {
    events_.wait(lock, deadline);
  }
  const Status status = events_.verdict({&pending, 1}).status;
  EXPECT_EQ(status.code(), ErrorCode::kPeerLost);
  EXPECT_EQ(status.message(), "rank 1 is gone: Connection closed by peer");
}

TEST(C10dWaiters, CancelsPendingTransfers) {
  PeerEvents events;
  std::vector<Transfer> transfers(3 * C10dWaiters::kMaxThreads);
  {
    C10dWaiters waiters(events);
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      transfers[i].peer = static_cast<std::uint32_t>(i / 2);
      waiters.add(i % 4 < 2 ? Direction::kSend : Direction::kReceive,
                  c10::make_intrusive<FakeWork>(), transfers[i]);
    }
    EXPECT_EQ(FakeWork::alive, static_cast<int>(transfers.size()));
  }
  EXPECT_EQ(FakeWork::alive, 0);
  EXPECT_EQ(count_threads("nf_waiter"), 0);
  EXPECT_TRUE(events.done().empty());
}

}  // namespace
}  // namespace nf::torch_front
