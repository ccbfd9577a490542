#include "transport/transport_contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace nf::test {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

// The k-th message between two ranks. Its size and bytes differ from those of every other message.
Bytes message(std::uint32_t from, std::uint32_t to, std::size_t k, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(from * 101 + to * 57 + k * 31 + i * 7 + (i >> 8));
  }
  return bytes;
}

std::array<std::uint32_t, kContractRanks - 1> others(const Transport& end) {
  return {(end.rank() + 1) % kContractRanks, (end.rank() + 2) % kContractRanks};
}

// Exchanges `count` messages between every two ranks in both directions; starts all before it
// waits.
void exchange(Transport& end, std::size_t count, std::size_t (*size_of)(std::size_t k)) {
  std::vector<Bytes> outgoing;
  std::vector<Bytes> expected;
  for (const std::uint32_t peer : others(end)) {
    for (std::size_t k = 0; k < count; ++k) {
      outgoing.push_back(message(end.rank(), peer, k, size_of(k)));
      expected.push_back(message(peer, end.rank(), k, size_of(k)));
    }
  }
  std::vector<Bytes> incoming;
  for (const Bytes& bytes : expected) incoming.emplace_back(bytes.size());
  std::vector<Transfer> transfers(2 * outgoing.size());
  for (std::size_t i = 0; i < outgoing.size(); ++i) {
    const std::uint32_t peer = others(end)[i / count];
    transfers[2 * i] = {.peer = peer, .bytes = outgoing[i]};
    ASSERT_TRUE(end.send(transfers[2 * i]).ok());
    transfers[2 * i + 1] = {.peer = peer, .bytes = incoming[i]};
    ASSERT_TRUE(end.receive(transfers[2 * i + 1]).ok());
  }
  const Status status = finish(end, transfers);
  ASSERT_TRUE(status.ok()) << to_string(status);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(transfers[2 * i + 1].size, expected[i].size());
    EXPECT_TRUE(incoming[i] == expected[i]) << "message " << i;
  }
}

void reports_its_rank(Transport& end) {
  EXPECT_EQ(end.ranks(), kContractRanks);
  EXPECT_LT(end.rank(), kContractRanks);
  EXPECT_FALSE(end.name().empty());
}

void keeps_the_order_between_two_ranks(Transport& end) {
  exchange(end, 20, [](std::size_t k) { return k % 3 == 0 ? 10000 - k : k + 1; });
}

void moves_large_messages(Transport& end) {
  exchange(end, 1, [](std::size_t) { return std::size_t{1} << 20; });
}

void moves_empty_messages(Transport& end) {
  exchange(end, 6, [](std::size_t k) { return k % 2; });
}

void keeps_many_in_flight_both_ways(Transport& end) {
  exchange(end, 300, [](std::size_t k) { return 100 + k % 5; });
}

// Rank 0 sends many messages to rank 1, which receives none before a signal from rank 0 has reached
// it through rank 2. A blocking send would deadlock.
void never_blocks_a_sender(Transport& end) {
  constexpr std::size_t kMessages = 100;
  constexpr std::size_t kSize = 1 << 14;
  Bytes go(1);
  if (end.rank() == 2) {
    ASSERT_TRUE(receive_now(end, 0, go).ok());
    ASSERT_TRUE(send_now(end, 1, go).ok());
    return;
  }
  if (end.rank() == 1) {
    ASSERT_TRUE(receive_now(end, 2, go).ok());
  }
  std::vector<Bytes> bytes;
  std::vector<Transfer> transfers(kMessages);
  for (std::size_t k = 0; k < kMessages; ++k) {
    bytes.push_back(end.rank() == 0 ? message(0, 1, k, kSize) : Bytes(kSize));
    transfers[k] = {.peer = 1 - end.rank(), .bytes = bytes[k]};
    ASSERT_TRUE((end.rank() == 0 ? end.send(transfers[k]) : end.receive(transfers[k])).ok());
  }
  if (end.rank() == 0) {
    ASSERT_TRUE(send_now(end, 2, go).ok());
  }
  const Status status = finish(end, transfers);
  ASSERT_TRUE(status.ok()) << to_string(status);
  for (std::size_t k = 0; k < kMessages; ++k) {
    EXPECT_TRUE(bytes[k] == message(0, 1, k, kSize)) << k;
  }
}

void survives_a_deadline(Transport& end) {
  if (end.rank() == 2) return;
  Bytes go(1);
  Bytes bytes(10);
  if (end.rank() == 1) {
    ASSERT_TRUE(receive_now(end, 0, go).ok());
    bytes = message(1, 0, 0, 10);
    ASSERT_TRUE(send_now(end, 0, bytes).ok());
    return;
  }
  Transfer transfer{.peer = 1, .bytes = bytes};
  ASSERT_TRUE(end.receive(transfer).ok());
  for (const Duration timeout : {Duration(-1), Duration(0), Duration(2'000'000)}) {
    const Status late = end.wait(end.now() + timeout);
    EXPECT_EQ(late.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(late.message(), HasSubstr("rank 1"));
    EXPECT_FALSE(transfer.is_done);
  }
  EXPECT_TRUE(end.progress().ok());
  ASSERT_TRUE(send_now(end, 1, go).ok());
  ASSERT_TRUE(finish(end, transfer).ok());
  EXPECT_TRUE(bytes == message(1, 0, 0, 10));
}

// Every call fails with the first error.
void expect_failed(Transport& end, ErrorCode code, std::string_view text) {
  Bytes bytes(1);
  Transfer transfer{.peer = others(end)[0], .bytes = bytes};
  for (const Status& status : {end.progress(), end.wait(distant_deadline(end)), end.send(transfer),
                               end.receive(transfer), end.progress()}) {
    EXPECT_EQ(status.code(), code) << to_string(status);
    EXPECT_THAT(status.message(), HasSubstr(text));
  }
}

void reports_an_abort_to_waiting_ranks(Transport& end) {
  Bytes bytes(10);
  if (end.rank() == 1) {
    for (const std::uint32_t peer : {0u, 2u}) ASSERT_TRUE(receive_now(end, peer, bytes).ok());
    end.abort({ErrorCode::kCorruptFrame, "no such code"});
    return expect_failed(end, ErrorCode::kCorruptFrame, "no such code");
  }
  Bytes go(10);
  std::array<Transfer, 2> both = {Transfer{.peer = 1, .bytes = go},
                                  Transfer{.peer = 1, .bytes = bytes}};
  ASSERT_TRUE(end.receive(both[1]).ok());
  ASSERT_TRUE(end.send(both[0]).ok());
  const Status status = finish(end, both);
  EXPECT_EQ(status.code(), ErrorCode::kAborted);
  EXPECT_THAT(status.message(), HasSubstr("rank 1 aborted: corrupt_frame: no such code"));
  EXPECT_FALSE(both[1].is_done);
  expect_failed(end, ErrorCode::kAborted, "rank 1 aborted");
}

void reports_an_earlier_abort(Transport& end) {
  if (end.rank() == 1) return end.abort({ErrorCode::kCorruptFrame, "no such code"});
  // Ranks that do not use rank 1 are not affected.
  const std::uint32_t peer = 2 - end.rank();
  for (std::size_t k = 0; k < 10; ++k) {
    Bytes outgoing = message(end.rank(), peer, k, 1000);
    Bytes incoming(1000);
    std::array<Transfer, 2> both = {Transfer{.peer = peer, .bytes = outgoing},
                                    Transfer{.peer = peer, .bytes = incoming}};
    ASSERT_TRUE(end.send(both[0]).ok());
    ASSERT_TRUE(end.receive(both[1]).ok());
    const Status status = finish(end, both);
    ASSERT_TRUE(status.ok()) << to_string(status);
    EXPECT_TRUE(incoming == message(peer, end.rank(), k, 1000));
  }
  Bytes bytes(10);
  const Status status = receive_now(end, 1, bytes);
  EXPECT_EQ(status.code(), ErrorCode::kAborted);
  EXPECT_THAT(status.message(), HasSubstr("rank 1 aborted: corrupt_frame: no such code"));
  expect_failed(end, ErrorCode::kAborted, "rank 1 aborted");
}

void forwards_the_original_reason(Transport& end) {
  if (end.rank() == 0) return end.abort({ErrorCode::kPeerLost, "rank 7 is gone"});
  Bytes bytes(10);
  const Status status = receive_now(end, end.rank() - 1, bytes);
  EXPECT_EQ(status.code(), ErrorCode::kAborted);
  EXPECT_EQ(status.message(), "rank 0 aborted: peer_lost: rank 7 is gone");
  end.abort(status);
}

void rejects_messages_that_are_too_long(Transport& end) {
  if (end.rank() == 2) return;
  if (end.rank() == 0) {
    Bytes bytes = message(0, 1, 0, 81);
    const Status status = send_now(end, 1, bytes);
    EXPECT_TRUE(status.ok()) << to_string(status);
    return;
  }
  Bytes bytes(100);
  const Status status = receive_now(end, 0, std::span(bytes).first(80));
  EXPECT_EQ(status.code(), ErrorCode::kCorruptFrame);
  EXPECT_THAT(status.message(), HasSubstr("from rank 0"));
  EXPECT_THAT(status.message(), HasSubstr("80"));
  EXPECT_TRUE(std::ranges::all_of(std::span(bytes).subspan(80),
                                  [](std::byte byte) { return byte == std::byte{0}; }));
  expect_failed(end, ErrorCode::kCorruptFrame, "from rank 0");
}

void reports_the_size_of_short_messages(Transport& end) {
  const std::uint32_t to = others(end)[0];
  const std::uint32_t from = others(end)[1];
  Bytes outgoing = message(end.rank(), to, 0, 33);
  Bytes incoming(50, std::byte{9});
  std::array<Transfer, 2> both = {Transfer{.peer = to, .bytes = outgoing},
                                  Transfer{.peer = from, .bytes = incoming}};
  ASSERT_TRUE(end.send(both[0]).ok());
  ASSERT_TRUE(end.receive(both[1]).ok());
  ASSERT_TRUE(finish(end, both).ok());
  EXPECT_EQ(both[1].size, 33u);
  Bytes expected = message(from, end.rank(), 0, 33);
  expected.resize(50, std::byte{9});
  EXPECT_TRUE(incoming == expected);
}

void wait_returns_after_new_completions(Transport& end) {
  if (end.rank() == 2) return;
  Bytes bytes(8);
  if (end.rank() == 0) {
    ASSERT_TRUE(send_now(end, 1, bytes).ok());
    ASSERT_TRUE(send_now(end, 1, bytes).ok());
    return;
  }
  Bytes second(8);
  std::array<Transfer, 2> both = {Transfer{.peer = 0, .bytes = bytes},
                                  Transfer{.peer = 0, .bytes = second}};
  ASSERT_TRUE(end.receive(both[0]).ok());
  ASSERT_TRUE(end.receive(both[1]).ok());
  while (!both[1].is_done) {
    const auto before = std::ranges::count(both, true, &Transfer::is_done);
    ASSERT_TRUE(end.wait(distant_deadline(end)).ok());
    EXPECT_GT(std::ranges::count(both, true, &Transfer::is_done), before);
  }
  EXPECT_TRUE(both[0].is_done);
}

template <bool kSend>
void rejects(Transport& end, std::uint32_t peer) {
  Bytes bytes(1);
  Transfer transfer{.peer = peer, .bytes = bytes};
  const Status status = kSend ? end.send(transfer) : end.receive(transfer);
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(peer)));
}

constexpr std::array kCases = {
    ContractCase{"ReportsItsRank", reports_its_rank},
    ContractCase{"KeepsTheOrderBetweenTwoRanks", keeps_the_order_between_two_ranks},
    ContractCase{"MovesLargeMessages", moves_large_messages},
    ContractCase{"MovesEmptyMessages", moves_empty_messages},
    ContractCase{"KeepsManyInFlightBothWays", keeps_many_in_flight_both_ways},
    ContractCase{"NeverBlocksASender", never_blocks_a_sender},
    ContractCase{"SurvivesADeadline", survives_a_deadline},
    ContractCase{"ReportsAnAbortToWaitingRanks", reports_an_abort_to_waiting_ranks},
    ContractCase{"ReportsAnEarlierAbort", reports_an_earlier_abort},
    ContractCase{"ForwardsTheOriginalReason", forwards_the_original_reason},
    ContractCase{"RejectsMessagesThatAreTooLong", rejects_messages_that_are_too_long, true},
    ContractCase{"ReportsTheSizeOfShortMessages", reports_the_size_of_short_messages, true},
    ContractCase{"WaitReturnsAfterNewCompletions", wait_returns_after_new_completions},
    ContractCase{"RejectsSendsToItself", [](Transport& end) { rejects<true>(end, end.rank()); }},
    ContractCase{"RejectsReceivesFromItself",
                 [](Transport& end) { rejects<false>(end, end.rank()); }},
    ContractCase{"RejectsSendsToUnknownRanks",
                 [](Transport& end) { rejects<true>(end, end.ranks()); }},
    ContractCase{"RejectsReceivesFromUnknownRanks",
                 [](Transport& end) { rejects<false>(end, 99); }},
};

}  // namespace

std::span<const ContractCase> contract_cases() { return kCases; }

Duration distant_deadline(const Transport& end) { return end.now() + std::chrono::seconds(60); }

Status finish(Transport& end, const Transfer& transfer) { return finish(end, {&transfer, 1}); }

Status finish(Transport& end, std::span<const Transfer> transfers) {
  const Duration deadline = distant_deadline(end);
  for (const Transfer& transfer : transfers) {
    while (!transfer.is_done) NF_RETURN_IF_ERROR(end.wait(deadline));
  }
  return {};
}

Status send_now(Transport& end, std::uint32_t peer, std::span<std::byte> bytes) {
  Transfer transfer{.peer = peer, .bytes = bytes};
  NF_RETURN_IF_ERROR(end.send(transfer));
  return finish(end, transfer);
}

Status receive_now(Transport& end, std::uint32_t peer, std::span<std::byte> bytes) {
  Transfer transfer{.peer = peer, .bytes = bytes};
  NF_RETURN_IF_ERROR(end.receive(transfer));
  return finish(end, transfer);
}

}  // namespace nf::test
