// After the first calls, an all-reduce allocates no memory.
#include <gtest/gtest.h>

#include <barrier>
#include <string>
#include <tuple>
#include <vector>

#include "support/allocations.h"
#include "support/generator.h"
#include "support/ranks.h"

namespace nf::test {
namespace {

constexpr std::uint32_t kRanks = 2;
constexpr int kWarmUps = 30;  // queues grow to the maximum that any order of events needs
constexpr int kCalls = 5;

class Allocation : public ::testing::TestWithParam<std::tuple<std::string, Topology>> {};

TEST_P(Allocation, StopsAfterTheFirstCalls) {
  const auto& [codec, topology] = GetParam();
  const AllReduceOptions options{.codec = codec, .topology = topology, .tile_bytes = 4096};
  std::barrier all_are_here(kRanks);
  const std::size_t before = counted_allocations();
  on_all_ranks(kRanks, [&](Transport& transport) {
    Parameters parameters = {std::vector<float>(20'000, 1.5f), std::vector<float>(777, -2.0f)};
    const std::vector<Gradient> gradients = gradients_of(parameters);
    const auto sum = AllReduce::create(transport, options);
    ASSERT_TRUE(sum) << to_string(sum.status());
    for (int call = 0; call < kWarmUps + kCalls; ++call) {
      if (call == kWarmUps) {
        all_are_here.arrive_and_wait();
        count_allocations(true);
      }
      const Status status =
          (*sum)->run({.step = static_cast<std::uint64_t>(call), .gradients = gradients});
      ASSERT_TRUE(status.ok()) << to_string(status);
    }
    all_are_here.arrive_and_wait();
    count_allocations(false);
  });
  EXPECT_EQ(counted_allocations(), before);
}

INSTANTIATE_TEST_SUITE_P(AllReduce, Allocation,
                         ::testing::Values(std::tuple("fp32", Topology::kRing),
                                           std::tuple("waterfill:4", Topology::kRing),
                                           std::tuple("waterfill:4", Topology::kDirect)));

}  // namespace
}  // namespace nf::test
