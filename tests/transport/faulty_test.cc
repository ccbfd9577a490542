#include "transport/faulty.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "neuron_fabric/inproc_transport.h"
#include "transport/transport_contract.h"

namespace nf::test {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kPeer = 1;

// Rank 0 follows the plan; its peer, rank 1, has no faults. One thread runs both.
class Faulty : public testing::Test {
 protected:
  void plan(FaultPlan plan) {
    faulty_ = std::make_unique<FaultyTransport>(network_.endpoint(0), std::move(plan));
  }

  // Starts to send one message per given first byte.
  void send(const std::vector<int>& first_bytes) {
    for (const int first : first_bytes) {
      messages_.push_back(std::make_unique<Message>());
      Message& message = *messages_.back();
      message.bytes[0] = static_cast<std::byte>(first);
      message.transfer = {.peer = kPeer, .bytes = message.bytes};
      ASSERT_TRUE(faulty_->send(message.transfer).ok());
    }
  }

  // The next message that the peer receives.
  Bytes received() {
    Bytes bytes(kSize);
    Transfer transfer{.peer = 0, .bytes = bytes};
    EXPECT_TRUE(peer_->receive(transfer).ok());
    while (!transfer.is_done) {
      EXPECT_TRUE(faulty_->progress().ok());
      if (!peer_->progress().ok()) return {};
    }
    bytes.resize(transfer.size);
    return bytes;
  }

  static Bytes message(int first) {
    Bytes bytes(kSize, std::byte{7});
    bytes[0] = static_cast<std::byte>(first);
    return bytes;
  }

  static constexpr std::size_t kSize = 10;
  struct Message {
    Bytes bytes = Bytes(kSize, std::byte{7});
    Transfer transfer;
  };
  std::vector<std::unique_ptr<Message>> messages_;
  InprocNetwork network_{2};
  std::unique_ptr<Transport> peer_ = network_.endpoint(kPeer);
  std::unique_ptr<FaultyTransport> faulty_;
};

TEST_F(Faulty, DropsAMessageAndReportsItAsDone) {
  plan({{.operation = 1, .kind = Fault::Kind::kDrop}});
  send({1, 2, 3});
  ASSERT_TRUE(faulty_->wait(faulty_->now()).ok());
  EXPECT_FALSE(messages_[0]->transfer.is_done);
  EXPECT_TRUE(messages_[1]->transfer.is_done);
  EXPECT_EQ(received(), message(1));
  EXPECT_EQ(received(), message(3));
}

TEST_F(Faulty, FlipsABitInTransitOnly) {
  plan({{.operation = 1, .kind = Fault::Kind::kCorrupt, .byte = 4}});
  send({1, 2, 3});
  EXPECT_EQ(received(), message(1));
  Bytes corrupt = message(2);
  corrupt[4] ^= std::byte{1};
  EXPECT_EQ(received(), corrupt);
  EXPECT_EQ(messages_[1]->bytes, message(2));
  EXPECT_EQ(received(), message(3));
  ASSERT_TRUE(faulty_->progress().ok());
  for (const auto& sent : messages_) EXPECT_TRUE(sent->transfer.is_done);
}

TEST_F(Faulty, DoesNotCorruptShorterMessages) {
  plan({{.kind = Fault::Kind::kCorrupt, .byte = kSize}});
  send({1});
  EXPECT_EQ(received(), message(1));
}

TEST_F(Faulty, TruncatesAMessage) {
  plan({{.operation = 0, .kind = Fault::Kind::kTruncate, .byte = 3}});
  send({1, 2});
  EXPECT_EQ(received(), Bytes({std::byte{1}, std::byte{7}, std::byte{7}}));
  EXPECT_EQ(received(), message(2));
}

TEST_F(Faulty, AppliesFaultsToSuccessiveSends) {
  plan({{.operation = 0, .kind = Fault::Kind::kDrop},
        {.operation = 0, .kind = Fault::Kind::kTruncate, .byte = 1}});
  send({1, 2, 3});
  EXPECT_EQ(received(), Bytes({std::byte{2}}));
  EXPECT_EQ(received(), message(3));
}

TEST_F(Faulty, AppliesTheFaultOfAReceiveToTheNextSend) {
  plan({{.operation = 0, .kind = Fault::Kind::kDrop}});
  Bytes bytes(kSize);
  Transfer transfer{.peer = kPeer, .bytes = bytes};
  ASSERT_TRUE(faulty_->receive(transfer).ok());
  send({1, 2});
  EXPECT_EQ(received(), message(2));
}

TEST_F(Faulty, DelaysAMessageAndItsSuccessors) {
  plan({{.operation = 0, .kind = Fault::Kind::kDelay, .delay = std::chrono::milliseconds(20)}});
  const Duration start = faulty_->now();
  send({1, 2});
  EXPECT_EQ(faulty_->wait(start).code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(received(), message(1));
  EXPECT_GE(faulty_->now() - start, std::chrono::milliseconds(20));
  EXPECT_EQ(received(), message(2));
}

TEST_F(Faulty, SendsDelayedMessagesWhileItWaits) {
  plan({{.operation = 0, .kind = Fault::Kind::kDelay, .delay = std::chrono::milliseconds(20)}});
  std::jthread peer([this] {
    Bytes bytes(kSize);
    EXPECT_TRUE(receive_now(*peer_, 0, bytes).ok());
    EXPECT_EQ(bytes, message(1));
  });
  send({1});
  EXPECT_TRUE(finish(*faulty_, messages_[0]->transfer).ok());
}

TEST_F(Faulty, DiesLikeACrashedRank) {
  plan({{.operation = 2, .kind = Fault::Kind::kDie}});
  send({1});
  EXPECT_EQ(received(), message(1));
  Bytes bytes(kSize);
  Transfer transfer{.peer = kPeer, .bytes = bytes};
  ASSERT_TRUE(faulty_->receive(transfer).ok());
  for (const Status& status : {faulty_->send(transfer), faulty_->receive(transfer),
                               faulty_->progress(), faulty_->wait(distant_deadline(*faulty_))}) {
    EXPECT_EQ(status.code(), ErrorCode::kPeerLost);
    EXPECT_EQ(status.message(), "this rank has died, as the fault plan requires");
  }
  EXPECT_EQ(faulty_->rank(), 0u);
  EXPECT_EQ(faulty_->ranks(), 2u);
  EXPECT_EQ(faulty_->name(), "inproc");
  // A dead rank cannot send a reason.
  faulty_->abort({ErrorCode::kCorruptFrame, "no such code"});
  EXPECT_EQ(faulty_->progress().code(), ErrorCode::kPeerLost);
  const Status status = receive_now(*peer_, 0, bytes);
  EXPECT_EQ(status.code(), ErrorCode::kPeerLost);
  EXPECT_EQ(status.message(), "rank 0 is gone");
}

TEST_F(Faulty, ReportsItsAbortToPeers) {
  plan({{.operation = 0, .kind = Fault::Kind::kDelay, .delay = std::chrono::hours(1)}});
  send({1});
  faulty_->abort({ErrorCode::kCorruptFrame, "no such code"});
  EXPECT_EQ(faulty_->progress().code(), ErrorCode::kCorruptFrame);
  Bytes bytes(kSize);
  const Status status = receive_now(*peer_, 0, bytes);
  EXPECT_EQ(status.code(), ErrorCode::kAborted);
  EXPECT_THAT(status.message(), HasSubstr("no such code"));
}

}  // namespace
}  // namespace nf::test
