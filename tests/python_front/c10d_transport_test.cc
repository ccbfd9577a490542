// The contract of transport.h over Gloo, and the behaviour when a rank leaves.
#include "c10d_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "gloo_ranks.h"
#include "own_threads.h"
#include "transport/transport_contract.h"

namespace nf::test {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

// c10d does not send sizes: both ends must agree on them.
std::vector<ContractCase> cases() {
  std::vector<ContractCase> cases(contract_cases().begin(), contract_cases().end());
  std::erase_if(cases, [](const ContractCase& one) { return one.needs_sizes; });
  return cases;
}

class TransportContract : public testing::TestWithParam<ContractCase> {};

INSTANTIATE_TEST_SUITE_P(C10d, TransportContract, testing::ValuesIn(cases()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(TransportContract, Holds) {
  on_gloo_ranks(kContractRanks, [](GlooRank& own) { GetParam().check(*own.transport); });
}

void expect_lost(Transport& end, const Status& status, std::uint32_t peer) {
  EXPECT_EQ(status.code(), ErrorCode::kPeerLost) << to_string(status);
  EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(peer) + " is gone"));
  EXPECT_EQ(end.progress().message(), status.message());
}

TEST(C10dTransport, FailsAReceiveWhosePeerLeaves) {
  on_gloo_ranks(2, [](GlooRank& own) {
    Bytes bytes(10);
    if (own.transport->rank() == 1) {
      ASSERT_TRUE(receive_now(*own.transport, 0, bytes).ok());
      return own.transport.reset();
    }
    Transfer never{.peer = 1, .bytes = bytes};
    Bytes go(10);
    ASSERT_TRUE(own.transport->receive(never).ok());
    ASSERT_TRUE(send_now(*own.transport, 1, go).ok());
    expect_lost(*own.transport, finish(*own.transport, never), 1);
    EXPECT_FALSE(never.is_done);
  });
}

TEST(C10dTransport, DoesNotAffectOtherRanksWhenAPeerLeaves) {
  on_gloo_ranks(3, [](GlooRank& own) {
    Transport& end = *own.transport;
    if (end.rank() == 1) return own.transport.reset();
    Bytes outgoing(10, std::byte{5});
    Bytes incoming(10);
    std::vector<Transfer> both = {{.peer = 2 - end.rank(), .bytes = outgoing},
                                  {.peer = 2 - end.rank(), .bytes = incoming}};
    ASSERT_TRUE(end.send(both[0]).ok());
    ASSERT_TRUE(end.receive(both[1]).ok());
    EXPECT_TRUE(finish(end, both).ok());
    EXPECT_EQ(incoming, outgoing);
    expect_lost(end, receive_now(end, 1, incoming), 1);
  });
}

TEST(C10dTransport, MissesARankThatHasShutDownInLaterStepsOnly) {
  on_gloo_ranks(2, [](GlooRank& own) {
    Bytes bytes(1);
    if (own.transport->rank() == 1) {
      own.transport->notify_shutdown(5);
      ASSERT_TRUE(receive_now(*own.transport, 0, bytes).ok());
      return;
    }
    const Status missed = own.transport->peers(5, std::chrono::seconds(30));
    EXPECT_EQ(missed.code(), ErrorCode::kPeerLost);
    EXPECT_THAT(missed.message(), HasSubstr("rank 1 is gone: it has ended after 5 steps"));
    EXPECT_TRUE(own.transport->peers(4).ok());
    EXPECT_TRUE(send_now(*own.transport, 1, bytes).ok());
  });
}

TEST(C10dTransport, ReportsAnAbortInEveryStep) {
  on_gloo_ranks(2, [](GlooRank& own) {
    if (own.transport->rank() == 1) {
      return own.transport->abort({ErrorCode::kCorruptFrame, "no such code"});
    }
    const Status missed = own.transport->peers(0, std::chrono::seconds(30));
    EXPECT_EQ(missed.code(), ErrorCode::kAborted);
    EXPECT_THAT(missed.message(), HasSubstr("rank 1 aborted: corrupt_frame: no such code"));
  });
}

// Every rank exchanges messages with all others, which busies more channels than there are threads.
// The messages of the last rank come late.
TEST(C10dTransport, UsesABoundedNumberOfThreads) {
  constexpr std::uint32_t kRanks = 12;
  constexpr std::size_t kMessages = 5;
  on_gloo_ranks(kRanks, [](GlooRank& own) {
    Transport& end = *own.transport;
    std::vector<Bytes> bytes;
    std::vector<Transfer> transfers(2 * kMessages * (kRanks - 1));
    const auto value = [](std::uint32_t from, std::uint32_t to, std::size_t k) {
      return static_cast<std::byte>(from * 19 + to * 5 + k);
    };
    for (std::uint32_t peer = 0; peer < kRanks; ++peer) {
      for (std::size_t k = 0; k < kMessages && peer != end.rank(); ++k) {
        bytes.emplace_back(1000, value(end.rank(), peer, k));
        bytes.emplace_back(1000);
      }
    }
    const auto peer_of = [&](std::size_t i) {
      const auto peer = static_cast<std::uint32_t>(i / (2 * kMessages));
      return peer < end.rank() ? peer : peer + 1;
    };
    if (end.rank() + 1 == kRanks) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      transfers[i] = {.peer = peer_of(i), .bytes = bytes[i]};
      ASSERT_TRUE((i % 2 == 0 ? end.send(transfers[i]) : end.receive(transfers[i])).ok());
    }
    const Status status = finish(end, transfers);
    ASSERT_TRUE(status.ok()) << to_string(status);
    for (std::size_t i = 1; i < transfers.size(); i += 2) {
      EXPECT_EQ(bytes[i], Bytes(1000, value(peer_of(i), end.rank(), i / 2 % kMessages)));
    }
    if (end.rank() != 0) return;
    EXPECT_LE(count_threads("nf_waiter"),
              static_cast<int>(kRanks * torch_front::C10dWaiters::kMaxThreads));
    EXPECT_EQ(count_threads("nf_watch"), static_cast<int>(kRanks));
  });
}

}  // namespace
}  // namespace nf::test
