#include "failure_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace nf::torch_front {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

class FailureStoreTest : public testing::Test {
 protected:
  c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
  FailureStore first_{store_, "job"};
  FailureStore second_{store_, "job"};
};

TEST_F(FailureStoreTest, KeepsTheFirstReport) {
  EXPECT_THAT(first_.read(), IsEmpty());
  EXPECT_EQ(first_.report("rank 2 is gone"), "rank 2 is gone");
  EXPECT_EQ(second_.report("rank 0 aborted"), "rank 2 is gone");
  EXPECT_EQ(second_.read(), "rank 2 is gone");
}

TEST_F(FailureStoreTest, SeparatesJobs) {
  first_.report("rank 2 is gone");
  FailureStore other(store_, "another job");
  EXPECT_THAT(other.read(), IsEmpty());
}

TEST_F(FailureStoreTest, ListsRanksThatHaveNotAcknowledged) {
  EXPECT_THAT(first_.missing(3, 7), Optional(ElementsAre(0, 1, 2)));
  first_.acknowledge(0, 7);
  second_.acknowledge(1, 7);
  EXPECT_THAT(first_.missing(3, 7), Optional(ElementsAre(2)));
  second_.clear_acknowledgement(1);
  EXPECT_THAT(first_.missing(3, 7), Optional(ElementsAre(1, 2)));
}

// Some ranks may have completed a step that others have not.
TEST_F(FailureStoreTest, AcceptsAnAcknowledgementOfTheStepBefore) {
  first_.acknowledge(0, 6);
  EXPECT_THAT(first_.missing(1, 7), Optional(IsEmpty()));
  EXPECT_THAT(first_.missing(1, 8), Optional(ElementsAre(0)));
}

class CountingStore : public c10d::HashStore {
 public:
  bool check(const std::vector<std::string>& keys) override {
    ++requests;
    return c10d::HashStore::check(keys);
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    ++requests;
    return c10d::HashStore::get(key);
  }
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    ++requests;
    return c10d::HashStore::multiGet(keys);
  }

  std::atomic<int> requests = 0;
};

TEST(FailureStore, ReadsTheAcknowledgementsOfManyRanksInTwoRequests) {
  constexpr std::uint32_t kRanks = 512;
  const auto store = c10::make_intrusive<CountingStore>();
  FailureStore failures(store, "job");
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) failures.clear_acknowledgement(rank);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    if (rank != 7) failures.acknowledge(rank, 3);
  }
  store->requests = 0;
  EXPECT_THAT(failures.missing(kRanks, 3), Optional(ElementsAre(7)));
  EXPECT_LE(store->requests, 2);
}

// A store whose host has stopped: requests block until the store is released.
class BlockedStore : public c10d::HashStore {
 public:
  std::vector<std::uint8_t> compareSet(const std::string& /*key*/,
                                       const std::vector<std::uint8_t>& /*expected*/,
                                       const std::vector<std::uint8_t>& /*desired*/) override {
    return block(), std::vector<std::uint8_t>();
  }
  bool check(const std::vector<std::string>& /*keys*/) override { return block(), false; }
  void release() { released_.set_value(); }

 private:
  void block() { future_.wait(); }

  std::promise<void> released_;
  std::shared_future<void> future_ = released_.get_future().share();
};

TEST(FailureStore, DoesNotWaitLongForAStoreThatDoesNotAnswer) {
  const auto store = c10::make_intrusive<BlockedStore>();
  FailureStore failures(store, "job");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(failures.report("rank 2 is gone"), "rank 2 is gone");
  EXPECT_THAT(failures.read(), IsEmpty());
  EXPECT_EQ(failures.missing(3, 7), std::nullopt);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  store->release();
}

class BrokenStore : public c10d::HashStore {
 public:
  bool check(const std::vector<std::string>& /*keys*/) override {
    throw std::runtime_error("Connection reset by peer");
  }
};

TEST(FailureStore, ToleratesAStoreThatFails) {
  FailureStore failures(c10::make_intrusive<BrokenStore>(), "job");
  EXPECT_THAT(failures.read(), IsEmpty());
  EXPECT_EQ(failures.missing(3, 7), std::nullopt);
  EXPECT_EQ(failures.report("rank 2 is gone"), "rank 2 is gone");
}

}  // namespace
}  // namespace nf::torch_front
