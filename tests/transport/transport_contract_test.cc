// The contract of transport.h for every transport whose ranks can be threads, and the behaviour
// when a rank leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "neuron_fabric/inproc_transport.h"
#include "transport/faulty.h"
#include "transport/transport_contract.h"

namespace nf::test {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;
using Ends = std::vector<std::unique_ptr<Transport>>;

struct Network {
  std::string_view name;
  Ends (*make)(std::uint32_t ranks);
};

Ends inproc(std::uint32_t ranks) {
  InprocNetwork network(ranks);
  Ends ends;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) ends.push_back(network.endpoint(rank));
  return ends;
}

// An empty plan changes nothing.
Ends faulty(std::uint32_t ranks) {
  Ends ends = inproc(ranks);
  for (std::unique_ptr<Transport>& end : ends) {
    end = std::make_unique<FaultyTransport>(std::move(end), FaultPlan{});
  }
  return ends;
}

constexpr Network kNetworks[] = {{"inproc", inproc}, {"faulty", faulty}};

// Runs `part` on one thread per rank; the thread owns its end.
template <typename Part>
void run(Ends ends, Part part) {
  std::vector<std::jthread> threads;
  for (std::unique_ptr<Transport>& end : ends) {
    threads.emplace_back([&part, own = std::move(end)]() mutable { part(own); });
  }
}

class TransportContract : public testing::TestWithParam<std::tuple<Network, ContractCase>> {};

INSTANTIATE_TEST_SUITE_P(Transports, TransportContract,
                         testing::Combine(testing::ValuesIn(kNetworks),
                                          testing::ValuesIn(contract_cases().begin(),
                                                            contract_cases().end())),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param).name) + "_" +
                                  std::string(std::get<1>(param.param).name);
                         });

TEST_P(TransportContract, Holds) {
  const Network network = std::get<0>(GetParam());
  const ContractCase contract_case = std::get<1>(GetParam());
  run(network.make(kContractRanks),
      [&](std::unique_ptr<Transport>& end) { contract_case.check(*end); });
}

class EveryNetwork : public testing::TestWithParam<Network> {};

INSTANTIATE_TEST_SUITE_P(Transports, EveryNetwork, testing::ValuesIn(kNetworks),
                         [](const auto& param) { return std::string(param.param.name); });

void expect_lost(Transport& end, const Status& status, std::uint32_t peer) {
  EXPECT_EQ(status.code(), ErrorCode::kPeerLost) << to_string(status);
  EXPECT_EQ(status.message(), "rank " + std::to_string(peer) + " is gone");
  EXPECT_EQ(end.progress().message(), status.message());
}

TEST_P(EveryNetwork, FailsAReceiveWhosePeerLeaves) {
  run(GetParam().make(2), [](std::unique_ptr<Transport>& end) {
    Bytes go(1);
    if (end->rank() == 1) {
      ASSERT_TRUE(receive_now(*end, 0, go).ok());
      return end.reset();
    }
    Bytes bytes(10);
    std::vector<Transfer> both = {{.peer = 1, .bytes = go}, {.peer = 1, .bytes = bytes}};
    ASSERT_TRUE(end->receive(both[1]).ok());
    ASSERT_TRUE(end->send(both[0]).ok());
    expect_lost(*end, finish(*end, both), 1);
    EXPECT_TRUE(both[0].is_done);
    EXPECT_FALSE(both[1].is_done);
  });
}

TEST_P(EveryNetwork, FailsASendWhosePeerLeaves) {
  run(GetParam().make(2), [](std::unique_ptr<Transport>& end) {
    Bytes go(1);
    if (end->rank() == 1) {
      ASSERT_TRUE(receive_now(*end, 0, go).ok());
      return end.reset();
    }
    Bytes bytes(1 << 20);
    std::vector<Transfer> transfers(2, Transfer{.peer = 1, .bytes = bytes});
    transfers[0].bytes = go;
    ASSERT_TRUE(end->send(transfers[0]).ok());
    // If the peer has already left, send() fails.
    const Status started = end->send(transfers[1]);
    expect_lost(*end, started.ok() ? finish(*end, transfers) : started, 1);
    EXPECT_FALSE(transfers[1].is_done);
  });
}

TEST_P(EveryNetwork, FailsATransferToAPeerThatHasLeft) {
  for (const bool sends : {false, true}) {
    Ends ends = GetParam().make(3);
    ends[1].reset();
    Bytes bytes(10);
    expect_lost(*ends[0], sends ? send_now(*ends[0], 1, bytes) : receive_now(*ends[0], 1, bytes),
                1);
  }
}

TEST_P(EveryNetwork, CompletesMessagesSentBeforeThePeerLeft) {
  Ends ends = GetParam().make(2);
  Bytes outgoing(10, std::byte{5});
  Bytes incoming(10);
  Bytes never(10);
  Transfer sent{.peer = 1, .bytes = outgoing};
  Transfer received{.peer = 0, .bytes = incoming};
  Transfer missing{.peer = 0, .bytes = never};
  ASSERT_TRUE(ends[0]->send(sent).ok());
  ASSERT_TRUE(ends[1]->receive(received).ok());
  ASSERT_TRUE(ends[1]->receive(missing).ok());
  ASSERT_TRUE(finish(*ends[0], sent).ok());
  ends[0].reset();
  expect_lost(*ends[1], finish(*ends[1], missing), 0);
  EXPECT_TRUE(received.is_done);
  EXPECT_EQ(incoming, outgoing);
}

TEST_P(EveryNetwork, DoesNotAffectOtherRanks) {
  Ends ends = GetParam().make(3);
  ends[1].reset();
  Bytes outgoing(10, std::byte{5});
  Bytes incoming(10);
  Transfer sent{.peer = 2, .bytes = outgoing};
  Transfer received{.peer = 0, .bytes = incoming};
  ASSERT_TRUE(ends[0]->send(sent).ok());
  ASSERT_TRUE(ends[2]->receive(received).ok());
  ASSERT_TRUE(finish(*ends[0], sent).ok());
  ASSERT_TRUE(finish(*ends[2], received).ok());
  EXPECT_EQ(incoming, outgoing);
}

// Sends to and receives from every other rank, `steps` times.
Status exchange_with_all(Transport& end, std::vector<Bytes>& bytes, std::size_t steps) {
  std::vector<Transfer> transfers(bytes.size());
  for (std::size_t step = 0; step < steps; ++step) {
    for (std::uint32_t i = 0; i < bytes.size(); ++i) {
      transfers[i] = {.peer = i / 2, .bytes = bytes[i], .is_done = i / 2 == end.rank()};
      if (transfers[i].is_done) continue;
      NF_RETURN_IF_ERROR(i % 2 == 0 ? end.send(transfers[i]) : end.receive(transfers[i]));
    }
    NF_RETURN_IF_ERROR(finish(end, transfers));
  }
  return {};
}

// Ranks leave while messages are in flight. A rank that failed may reuse its buffers at once.
TEST_P(EveryNetwork, ReleasesTheBuffersOfAFailedRank) {
  constexpr std::uint32_t kRanks = 4;
  for (std::uint32_t round = 0; round < 30; ++round) {
    run(GetParam().make(kRanks), [round](std::unique_ptr<Transport>& end) {
      std::vector<Bytes> bytes(2 * kRanks, Bytes(20000));
      const Status status = exchange_with_all(*end, bytes, 1 + (7 * round + 11 * end->rank()) % 30);
      if ((round + end->rank()) % 2 == 0) end->abort({ErrorCode::kPeerLost, "enough"});
      if (status.ok()) end.reset();
      for (Bytes& own : bytes) std::ranges::fill(own, std::byte{1});
      if (!status.ok()) {
        EXPECT_THAT(to_string(status), testing::AnyOf(HasSubstr("is gone"), HasSubstr("enough")));
      }
    });
  }
}

}  // namespace
}  // namespace nf::test
