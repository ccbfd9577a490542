// After the first calls, an all-reduce, a reduce-scatter or an exchange allocates no memory.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "collective/exchange.h"
#include "neuron_fabric/inproc_transport.h"
#include "neuron_fabric/reduce_scatter.h"
#include "support/allocations.h"
#include "support/ranks.h"
#include "support/shards.h"

namespace nf::test {
namespace {

constexpr std::uint32_t kRanks = 2;
constexpr std::uint64_t kWarmUps = 3;
constexpr std::uint64_t kCalls = 5;

// One thread drives all ranks, so every step has the same order of events and needs the same
// memory. start(rank, step) begins the call of a rank, advance(rank) continues it.
template <typename Start, typename Advance>
void expect_no_allocations(Start start, Advance advance) {
  const std::size_t before = counted_allocations();
  for (std::uint64_t step = 0; step < kWarmUps + kCalls; ++step) {
    count_allocations(step >= kWarmUps);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      const Status status = start(rank, step);
      ASSERT_TRUE(status.ok()) << to_string(status);
    }
    for (std::uint32_t done = 0; done < kRanks;) {
      done = 0;
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        const Expected<bool> is_done = advance(rank);
        ASSERT_TRUE(is_done) << to_string(is_done.status());
        if (*is_done) ++done;
      }
    }
    count_allocations(false);
  }
  EXPECT_EQ(counted_allocations(), before);
}

Parameters some_values() {
  return {std::vector<float>(20'000, 1.5f), std::vector<float>(777, -2.0f)};
}

class EveryAllocation : public ::testing::TestWithParam<std::tuple<std::string, Topology>> {
 protected:
  EveryAllocation() {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      endpoints_.push_back(network_.endpoint(rank));
  }

  // What `Sum` (AllReduce or ReduceScatter) creates, by rank.
  template <typename Sum>
  std::vector<std::unique_ptr<Sum>> sums() {
    const AllReduceOptions options{
        .codec = std::get<0>(GetParam()), .topology = std::get<1>(GetParam()), .tile_bytes = 4096};
    std::vector<std::unique_ptr<Sum>> made;
    for (const std::unique_ptr<Transport>& endpoint : endpoints_) {
      Expected<std::unique_ptr<Sum>> sum = Sum::create(*endpoint, options);
      EXPECT_TRUE(sum) << to_string(sum.status());
      if (sum) made.push_back(std::move(*sum));
    }
    return made;
  }

 private:
  InprocNetwork network_{kRanks};
  std::vector<std::unique_ptr<Transport>> endpoints_;
};

TEST_P(EveryAllocation, StopsAfterTheFirstAllReduces) {
  const auto sums = this->sums<AllReduce>();
  ASSERT_EQ(sums.size(), kRanks);
  std::vector<Parameters> values(kRanks, some_values());
  std::vector<std::vector<Gradient>> gradients;
  for (Parameters& own : values) gradients.push_back(gradients_of(own));
  expect_no_allocations(
      [&](std::uint32_t rank, std::uint64_t step) {
        return sums[rank]->start({.step = step, .gradients = gradients[rank]});
      },
      [&](std::uint32_t rank) { return sums[rank]->advance(); });
}

TEST_P(EveryAllocation, StopsAfterTheFirstReduceScatters) {
  const auto sums = this->sums<ReduceScatter>();
  ASSERT_EQ(sums.size(), kRanks);
  std::vector<Shards> values(kRanks, Shards(kRanks, some_values()));
  std::vector<ShardViews> views(values.begin(), values.end());
  expect_no_allocations(
      [&](std::uint32_t rank, std::uint64_t step) {
        return sums[rank]->start({.step = step, .shards = views[rank].shards()});
      },
      [&](std::uint32_t rank) { return sums[rank]->advance(); });
}

// One rank that sums values of two codecs in one exchange.
struct Rank {
  explicit Rank(std::unique_ptr<Transport> own)
      : transport(std::move(own)), exchange(*transport, options, Collective::kAllReduce) {
    AllReduceOptions of_part = options;
    for (const char* codec : {"waterfill:4", "fp32"}) {
      of_part.codec = codec;
      parts.push_back(std::move(
          *ExchangePart::create(of_part, Collective::kAllReduce, transport->rank(), kRanks)));
      gradients.push_back(gradients_of(values[inputs.size()]));
      inputs.push_back({.part = parts.back().get(), .gradients = gradients.back()});
    }
  }

  const AllReduceOptions options{.topology = Topology::kDirect, .tile_bytes = 4096};
  std::unique_ptr<Transport> transport;
  std::vector<Parameters> values{2, some_values()};
  std::vector<std::vector<Gradient>> gradients;
  std::vector<std::unique_ptr<ExchangePart>> parts;
  std::vector<Exchange::Input> inputs;
  Exchange exchange;
};

TEST(Allocation, StopsAfterTheFirstExchangesOfSeveralCodecs) {
  InprocNetwork network(kRanks);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(std::make_unique<Rank>(network.endpoint(rank)));
  }
  expect_no_allocations(
      [&](std::uint32_t rank, std::uint64_t step) {
        return ranks[rank]->exchange.start({.step = step}, ranks[rank]->inputs);
      },
      [&](std::uint32_t rank) { return ranks[rank]->exchange.advance(); });
}

INSTANTIATE_TEST_SUITE_P(Sums, EveryAllocation,
                         ::testing::Values(std::tuple("fp32", Topology::kRing),
                                           std::tuple("waterfill:4", Topology::kRing),
                                           std::tuple("waterfill:4", Topology::kDirect)));

}  // namespace
}  // namespace nf::test
