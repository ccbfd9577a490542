#include "transport/virtual_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

// 1 ns per byte, and 100 ns per message.
constexpr VirtualLinks kLinks{.bytes_per_second = 1e9, .latency = Duration(100)};

// A completion or error that a rank observed.
struct Event {
  std::int64_t time = 0;
  std::uint32_t rank = 0;
  std::string what;

  friend bool operator==(const Event&, const Event&) = default;
};

std::ostream& operator<<(std::ostream& out, const Event& it) {
  return out << it.time << ": " << it.what << " at rank " << it.rank;
}

class Ranks {
 public:
  explicit Ranks(std::uint32_t ranks, VirtualLinks links = kLinks) : network_(ranks, links) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) ends_.push_back(network_.endpoint(rank));
  }

  VirtualNetwork& network() { return network_; }
  std::unique_ptr<Transport>& end(std::uint32_t rank) { return ends_[rank]; }

  Status send(std::string name, std::uint32_t from, std::uint32_t to, std::size_t size) {
    return ends_[from]->send(add(std::move(name), from, to, size));
  }
  Status receive(std::string name, std::uint32_t at, std::uint32_t from, std::size_t size) {
    return ends_[at]->receive(add(std::move(name), at, from, size));
  }
  const Bytes& bytes(std::string_view name) const {
    return std::ranges::find(transfers_, name, &Named::name)->bytes;
  }

  // Steps until no event is left.
  std::vector<Event> run() {
    std::vector<Event> log;
    while (network_.step()) {
      for (const std::uint32_t rank : network_.ready_ranks()) poll(rank, log);
    }
    return log;
  }

 private:
  struct Named {
    std::string name;
    std::uint32_t rank = 0;
    Bytes bytes;
    Transfer transfer;
    bool is_logged = false;
  };

  Transfer& add(std::string name, std::uint32_t rank, std::uint32_t peer, std::size_t size) {
    Named& named = transfers_.emplace_back();
    named.bytes.assign(size, static_cast<std::byte>(name.back()));
    named.name = std::move(name);
    named.rank = rank;
    named.transfer = {.peer = peer, .bytes = named.bytes};
    return named.transfer;
  }

  void poll(std::uint32_t rank, std::vector<Event>& log) {
    const Status status = ends_[rank]->progress();
    for (Named& named : transfers_) {
      if (named.rank != rank || named.is_logged || !named.transfer.is_done) continue;
      named.is_logged = true;
      log.push_back({network_.now().count(), rank, named.name});
    }
    if (!status.ok()) log.push_back({network_.now().count(), rank, status.message()});
  }

  VirtualNetwork network_;
  std::vector<std::unique_ptr<Transport>> ends_;
  std::deque<Named> transfers_;
};

TEST(VirtualNetwork, ChargesLatencyAndBandwidth) {
  Ranks ranks(2);
  ASSERT_TRUE(ranks.send("send a", 0, 1, 1000).ok());
  ASSERT_TRUE(ranks.receive("receive b", 1, 0, 1000).ok());
  EXPECT_THAT(ranks.run(), ElementsAre(Event{1000, 0, "send a"}, Event{1100, 1, "receive b"}));
  EXPECT_EQ(ranks.bytes("receive b"), Bytes(1000, std::byte{'a'}));
  EXPECT_EQ(ranks.network().now(), Duration(1100));
}

TEST(VirtualNetwork, SerializesSendsOfARank) {
  Ranks ranks(3);
  ASSERT_TRUE(ranks.send("send a", 0, 1, 1000).ok());
  ASSERT_TRUE(ranks.send("send b", 0, 2, 500).ok());
  ASSERT_TRUE(ranks.receive("receive", 1, 0, 1000).ok());
  ASSERT_TRUE(ranks.receive("receive", 2, 0, 500).ok());
  EXPECT_THAT(ranks.run(), ElementsAre(Event{1000, 0, "send a"}, Event{1100, 1, "receive"},
                                       Event{1500, 0, "send b"}, Event{1600, 2, "receive"}));
}

TEST(VirtualNetwork, SerializesReceivesOfARank) {
  Ranks ranks(3);
  ASSERT_TRUE(ranks.send("send", 0, 2, 1000).ok());
  ASSERT_TRUE(ranks.send("send", 1, 2, 1000).ok());
  ASSERT_TRUE(ranks.receive("receive 1", 2, 1, 1000).ok());
  ASSERT_TRUE(ranks.receive("receive 0", 2, 0, 1000).ok());
  // Both heads arrive at 100; the incoming link is free again at 1100.
  EXPECT_THAT(ranks.run(), ElementsAre(Event{1000, 0, "send"}, Event{1000, 1, "send"},
                                       Event{1100, 2, "receive 0"}, Event{2100, 2, "receive 1"}));
}

TEST(VirtualNetwork, ReceivesMessagesInTheOrderOfTheirHeads) {
  Ranks ranks(4);
  ASSERT_TRUE(ranks.send("send", 0, 3, 300).ok());
  ASSERT_TRUE(ranks.send("send", 0, 2, 1000).ok());  // starts at 300
  ASSERT_TRUE(ranks.send("send", 1, 2, 1000).ok());  // starts at once
  ASSERT_TRUE(ranks.receive("receive 0", 2, 0, 1000).ok());
  ASSERT_TRUE(ranks.receive("receive 1", 2, 1, 1000).ok());
  const auto log = ranks.run();
  EXPECT_THAT(log,
              testing::IsSupersetOf({Event{1100, 2, "receive 1"}, Event{2100, 2, "receive 0"}}));
}

TEST(VirtualNetwork, SendsAndReceivesAtTheSameTime) {
  Ranks ranks(2);
  for (const std::uint32_t rank : {0u, 1u}) {
    ASSERT_TRUE(ranks.send("send", rank, 1 - rank, 1000).ok());
    ASSERT_TRUE(ranks.receive("receive", rank, 1 - rank, 1000).ok());
  }
  EXPECT_THAT(ranks.run(), ElementsAre(Event{1000, 0, "send"}, Event{1000, 1, "send"},
                                       Event{1100, 1, "receive"}, Event{1100, 0, "receive"}));
}

TEST(VirtualNetwork, DelaysSendsOfABusyRank) {
  Ranks ranks(2);
  ranks.network().busy(0, Duration(200));
  ranks.network().busy(0, Duration(300));
  ASSERT_TRUE(ranks.send("send", 0, 1, 1000).ok());
  ASSERT_TRUE(ranks.receive("receive", 1, 0, 1000).ok());
  EXPECT_THAT(ranks.run(), ElementsAre(Event{1500, 0, "send"}, Event{1600, 1, "receive"}));
}

TEST(VirtualNetwork, DoesNotNotifyABusyRank) {
  Ranks ranks(2);
  ASSERT_TRUE(ranks.send("send", 0, 1, 1000).ok());
  ASSERT_TRUE(ranks.receive("receive", 1, 0, 1000).ok());
  ranks.network().busy(1, Duration(5000));
  EXPECT_THAT(ranks.run(), ElementsAre(Event{1000, 0, "send"}, Event{5000, 1, "receive"}));
}

TEST(VirtualNetwork, WakesARankAfterItsComputation) {
  Ranks ranks(2);
  ranks.network().busy(1, Duration(700));
  ASSERT_TRUE(ranks.network().step());
  EXPECT_EQ(ranks.network().now(), Duration(700));
  EXPECT_THAT(ranks.network().ready_ranks(), ElementsAre(1));
  EXPECT_FALSE(ranks.network().step());
}

TEST(VirtualNetwork, BuffersMessagesThatArriveBeforeTheirReceive) {
  Ranks ranks(2);
  ASSERT_TRUE(ranks.send("send a", 0, 1, 10).ok());
  ASSERT_TRUE(ranks.send("send b", 0, 1, 10).ok());
  EXPECT_EQ(ranks.run().size(), 2u);
  ASSERT_TRUE(ranks.receive("receive 1", 1, 0, 10).ok());
  ASSERT_TRUE(ranks.receive("receive 2", 1, 0, 20).ok());
  EXPECT_THAT(ranks.run(), ElementsAre(Event{120, 1, "receive 1"}, Event{120, 1, "receive 2"}));
  EXPECT_EQ(ranks.bytes("receive 1")[0], std::byte{'a'});
  EXPECT_EQ(ranks.bytes("receive 2")[0], std::byte{'b'});
}

TEST(VirtualNetwork, StopsWithoutMessagesInFlight) {
  Ranks ranks(2);
  ASSERT_TRUE(ranks.receive("receive", 1, 0, 10).ok());
  EXPECT_FALSE(ranks.network().step());
  EXPECT_EQ(ranks.network().now(), Duration(0));
}

TEST(VirtualNetwork, DoesNotSupportWait) {
  Ranks ranks(2);
  const Status status = ranks.end(0)->wait(Duration(1000));
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("step()"));
  EXPECT_TRUE(ranks.end(0)->progress().ok());
}

TEST(VirtualNetwork, ReportsALostRankAfterTheLatency) {
  Ranks ranks(3);
  ASSERT_TRUE(ranks.send("last message", 1, 0, 1000).ok());
  ASSERT_TRUE(ranks.receive("receive", 0, 1, 1000).ok());
  ASSERT_TRUE(ranks.receive("never", 0, 1, 1000).ok());
  ranks.end(1).reset();
  EXPECT_THAT(ranks.run(),
              ElementsAre(Event{1100, 0, "receive"}, Event{1100, 0, "rank 1 is gone"}));
  EXPECT_EQ(ranks.end(0)->progress().code(), ErrorCode::kPeerLost);
  const Status late = ranks.send("send", 2, 1, 10);
  EXPECT_EQ(late.code(), ErrorCode::kPeerLost);
}

TEST(VirtualNetwork, DeliversMessagesSentBeforeTheRankLeft) {
  Ranks ranks(3);
  ASSERT_TRUE(ranks.send("send", 2, 0, 5000).ok());  // occupies the incoming link of rank 0
  ASSERT_TRUE(ranks.send("send", 1, 0, 1000).ok());
  ASSERT_TRUE(ranks.receive("receive", 0, 1, 1000).ok());
  ranks.end(1).reset();  // observed at 1100
  EXPECT_THAT(ranks.run(), ElementsAre(Event{5000, 2, "send"}, Event{6100, 0, "receive"}));
}

TEST(VirtualNetwork, ReportsAbortsToPeers) {
  Ranks ranks(3);
  ASSERT_TRUE(ranks.receive("receive", 0, 1, 10).ok());
  ranks.network().busy(1, Duration(50));
  ranks.end(1)->abort({ErrorCode::kCorruptFrame, "no such code"});
  EXPECT_THAT(ranks.run(),
              ElementsAre(Event{150, 0, "rank 1 aborted: corrupt_frame: no such code"}));
  EXPECT_EQ(ranks.end(1)->progress().code(), ErrorCode::kCorruptFrame);
  EXPECT_EQ(ranks.receive("late", 2, 1, 10).code(), ErrorCode::kAborted);
}

TEST(VirtualNetwork, RejectsLongMessagesAndInvalidPeers) {
  Ranks ranks(2);
  ASSERT_TRUE(ranks.send("send", 0, 1, 11).ok());
  ASSERT_TRUE(ranks.receive("receive", 1, 0, 10).ok());
  const auto log = ranks.run();
  ASSERT_EQ(log.size(), 2u);
  EXPECT_THAT(log[1].what, HasSubstr("11 bytes from rank 0, expected at most 10"));
  EXPECT_EQ(ranks.end(1)->progress().code(), ErrorCode::kCorruptFrame);
  EXPECT_EQ(ranks.send("self", 0, 0, 1).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(ranks.receive("unknown", 0, 2, 1).code(), ErrorCode::kInvalidArgument);
}

// Traffic with many simultaneous events.
std::vector<Event> traffic() {
  constexpr std::uint32_t kRanks = 20;
  Ranks ranks(kRanks);
  std::uint32_t state = 1;
  for (int i = 0; i < 500; ++i) {
    state = state * 1664525 + 1013904223;
    const std::uint32_t from = (state >> 8) % kRanks;
    const std::uint32_t to = (from + 1 + (state >> 16) % (kRanks - 1)) % kRanks;
    const std::size_t size = 100 * (state >> 29);
    EXPECT_TRUE(ranks.send(std::to_string(i), from, to, size).ok());
    EXPECT_TRUE(ranks.receive(std::to_string(i), to, from, size).ok());
    if (i % 7 == 0) ranks.network().busy(to, Duration(size));
  }
  return ranks.run();
}

TEST(VirtualNetwork, IsDeterministic) {
  const auto once = traffic();
  EXPECT_EQ(once.size(), 1000u);
  EXPECT_EQ(traffic(), once);
}

TEST(VirtualNetwork, PassesATokenAroundTwoThousandRanks) {
  constexpr std::uint32_t kRanks = 2000;
  VirtualNetwork network(kRanks, kLinks);
  std::vector<std::unique_ptr<Transport>> ends;
  std::vector<Bytes> tokens(kRanks, Bytes(50));
  std::vector<Transfer> incoming(kRanks);
  std::vector<Transfer> outgoing(kRanks);
  const auto pass_on = [&](std::uint32_t rank) {
    outgoing[rank] = {.peer = (rank + 1) % kRanks, .bytes = tokens[rank]};
    ASSERT_TRUE(ends[rank]->send(outgoing[rank]).ok());
  };
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    ends.push_back(network.endpoint(rank));
    incoming[rank] = {.peer = (rank + kRanks - 1) % kRanks, .bytes = tokens[rank]};
    ASSERT_TRUE(ends[rank]->receive(incoming[rank]).ok());
  }
  tokens[0].assign(50, std::byte{1});
  pass_on(0);
  while (network.step()) {
    for (const std::uint32_t rank : network.ready_ranks()) {
      const bool had_it = incoming[rank].is_done;
      ASSERT_TRUE(ends[rank]->progress().ok());
      if (rank != 0 && incoming[rank].is_done && !had_it) pass_on(rank);
    }
  }
  EXPECT_TRUE(incoming[0].is_done);
  EXPECT_EQ(tokens[kRanks - 1], Bytes(50, std::byte{1}));
  EXPECT_EQ(network.now(), kRanks * Duration(150));
}

}  // namespace
}  // namespace nf
