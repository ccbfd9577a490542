// The contract of transport.h over Gloo, and the behaviour when a rank leaves.
#include "c10d_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "gloo_ranks.h"
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

}  // namespace
}  // namespace nf::test
