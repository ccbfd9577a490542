// Many ranks in one thread, over a virtual network.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "transport/virtual_network.h"

namespace nf::test {

// Calls advance(rank) of every rank until it has returned true on all of them.
inline void advance_all(VirtualNetwork& network, std::uint32_t ranks,
                        const std::function<Expected<bool>(std::uint32_t)>& advance) {
  std::vector<bool> is_done(ranks, false);
  std::uint32_t done = 0;
  const auto advance_one = [&](std::uint32_t rank) {
    if (is_done[rank]) return;
    const Expected<bool> finished = advance(rank);
    ASSERT_TRUE(finished) << to_string(finished.status());
    is_done[rank] = *finished;
    done += *finished ? 1 : 0;
  };
  for (std::uint32_t rank = 0; rank < ranks; ++rank) advance_one(rank);
  while (done < ranks && network.step()) {
    const std::vector<std::uint32_t> ready(network.ready_ranks().begin(),
                                           network.ready_ranks().end());
    for (const std::uint32_t rank : ready) advance_one(rank);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(done, ranks) << "some ranks wait for each other";
}

// Counts the messages and bytes that a rank sends.
class CountingTransport final : public Transport {
 public:
  explicit CountingTransport(std::unique_ptr<Transport> wrapped) : wrapped_(std::move(wrapped)) {}

  std::uint64_t messages() const { return messages_; }
  std::uint64_t bytes() const { return bytes_; }

  std::string_view name() const override { return wrapped_->name(); }
  std::uint32_t rank() const override { return wrapped_->rank(); }
  std::uint32_t ranks() const override { return wrapped_->ranks(); }
  Duration now() const override { return wrapped_->now(); }
  Status send(Transfer& transfer) override {
    ++messages_;
    bytes_ += transfer.bytes.size();
    return wrapped_->send(transfer);
  }
  Status receive(Transfer& transfer) override { return wrapped_->receive(transfer); }
  Status progress() override { return wrapped_->progress(); }
  Status wait(Duration deadline) override { return wrapped_->wait(deadline); }
  void abort(const Status& why) override { wrapped_->abort(why); }

 private:
  const std::unique_ptr<Transport> wrapped_;
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace nf::test
