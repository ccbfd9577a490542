// The executor on hundreds of ranks in one thread, over simulated links with a virtual clock.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "neuron_fabric/all_reduce.h"
#include "transport/virtual_network.h"

namespace nf {
namespace {

struct Simulated {
  Duration time{0};
  std::vector<std::vector<float>> results;  // by rank
};

Simulated simulate(std::uint32_t ranks, std::size_t count, const AllReduceOptions& options,
                   VirtualLinks links) {
  VirtualNetwork network(ranks, links);
  std::vector<std::unique_ptr<Transport>> ends;
  std::vector<std::unique_ptr<AllReduce>> sums;
  std::vector<bool> is_done(ranks, false);
  Simulated simulated;
  simulated.results.assign(ranks, std::vector<float>(count));
  std::uint32_t done = 0;
  const auto advance = [&](std::uint32_t rank) {
    if (is_done[rank]) return;
    const Expected<bool> finished = sums[rank]->advance();
    ASSERT_TRUE(finished) << to_string(finished.status());
    is_done[rank] = *finished;
    done += *finished ? 1 : 0;
  };
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < count; ++i) {
      simulated.results[rank][i] = static_cast<float>(static_cast<int>((i * 7 + rank) % 5) - 2);
    }
    ends.push_back(network.endpoint(rank));
    sums.push_back(std::move(*AllReduce::create(*ends.back(), options)));
    const Gradient gradient{.parameter = 1, .values = Values(simulated.results[rank])};
    EXPECT_TRUE(sums[rank]->start({.gradients = std::span(&gradient, 1)}).ok());
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) advance(rank);
  while (done < ranks && network.step()) {
    const std::vector<std::uint32_t> ready(network.ready_ranks().begin(),
                                           network.ready_ranks().end());
    for (const std::uint32_t rank : ready) advance(rank);
  }
  EXPECT_EQ(done, ranks) << "some ranks wait for each other";
  simulated.time = network.now();
  return simulated;
}

TEST(VirtualAllReduce, SumsExactlyOverHundredsOfRanks) {
  constexpr std::uint32_t kRanks = 100;
  for (const Topology topology : {Topology::kRing, Topology::kTree, Topology::kHalvingDoubling}) {
    const Simulated simulated =
        simulate(kRanks, 500, {.codec = "fp32", .topology = topology}, VirtualLinks{});
    for (std::size_t i = 0; i < 500; ++i) {
      float exact = 0;
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        exact += static_cast<float>(static_cast<int>((i * 7 + rank) % 5) - 2);
      }
      ASSERT_EQ(simulated.results[0][i], exact) << to_string(topology);
    }
    for (const auto& result : simulated.results) ASSERT_EQ(result, simulated.results[0]);
  }
}

TEST(VirtualAllReduce, IsBitIdenticalOnAllRanksAtFourBits) {
  const Simulated simulated =
      simulate(64, 20000, {.codec = "waterfill:4", .topology = Topology::kTree}, VirtualLinks{});
  for (const auto& result : simulated.results) ASSERT_EQ(result, simulated.results[0]);
}

// Latency only: a ring has 2 (n - 1) dependent messages, halving_doubling 2 log2 n; the agreement
// before it log2 n.
TEST(VirtualAllReduce, TakesTheTimeOfItsLongestPath) {
  constexpr Duration kLatency = std::chrono::microseconds(10);
  const VirtualLinks links{.bytes_per_second = 1e15, .latency = kLatency};
  const auto latencies = [&](Topology topology) {
    const Simulated simulated = simulate(16, 160, {.codec = "fp32", .topology = topology}, links);
    return simulated.time / kLatency;
  };
  EXPECT_EQ(latencies(Topology::kRing), 4 + 2 * 15);
  EXPECT_EQ(latencies(Topology::kHalvingDoubling), 4 + 2 * 4);
  EXPECT_EQ(latencies(Topology::kDirect), 4 + 2);
}

// Bandwidth only: every rank sends 2 (n - 1) / n of the values, and tiles overlap.
TEST(VirtualAllReduce, SaturatesTheLinks) {
  const VirtualLinks links{.bytes_per_second = 1e8, .latency = Duration{0}};
  constexpr std::size_t kCount = 1 << 18;
  const Simulated simulated = simulate(
      8, kCount, {.codec = "fp32", .topology = Topology::kRing, .tile_bytes = 8192}, links);
  const double least = 2.0 * 7 / 8 * 4 * kCount / links.bytes_per_second;
  EXPECT_GE(std::chrono::duration<double>(simulated.time).count(), least);
  EXPECT_LE(std::chrono::duration<double>(simulated.time).count(), 1.05 * least);
}

}  // namespace
}  // namespace nf
