// After the first calls, an all-reduce or a reduce-scatter allocates no memory.
#include <gtest/gtest.h>

#include <barrier>
#include <string>
#include <tuple>
#include <vector>

#include "support/allocations.h"
#include "support/generator.h"
#include "support/ranks.h"
#include "support/shards.h"

namespace nf::test {
namespace {

constexpr std::uint32_t kRanks = 2;
constexpr int kWarmUps = 30;  // queues grow to the maximum that any order of events needs
constexpr int kCalls = 5;

// On every rank, runs work(transport, repeat). `repeat(call)` calls call(step) for every step and
// expects no allocation after the first steps.
template <typename Work>
void expect_no_allocations(Work work) {
  std::barrier all_are_here(kRanks);
  const std::size_t before = counted_allocations();
  on_all_ranks(kRanks, [&](Transport& transport) {
    work(transport, [&](const auto& call) {
      for (int step = 0; step < kWarmUps + kCalls; ++step) {
        if (step == kWarmUps) {
          all_are_here.arrive_and_wait();
          count_allocations(true);
        }
        const Status status = call(static_cast<std::uint64_t>(step));
        ASSERT_TRUE(status.ok()) << to_string(status);
      }
      all_are_here.arrive_and_wait();
      count_allocations(false);
    });
  });
  EXPECT_EQ(counted_allocations(), before);
}

Parameters some_values() {
  return {std::vector<float>(20'000, 1.5f), std::vector<float>(777, -2.0f)};
}

class Allocation : public ::testing::TestWithParam<std::tuple<std::string, Topology>> {
 protected:
  AllReduceOptions options() const {
    return {
        .codec = std::get<0>(GetParam()), .topology = std::get<1>(GetParam()), .tile_bytes = 4096};
  }
};

TEST_P(Allocation, StopsAfterTheFirstAllReduces) {
  expect_no_allocations([&](Transport& transport, auto repeat) {
    Parameters parameters = some_values();
    const std::vector<Gradient> gradients = gradients_of(parameters);
    const auto sum = AllReduce::create(transport, options());
    ASSERT_TRUE(sum) << to_string(sum.status());
    repeat([&](std::uint64_t step) { return (*sum)->run({.step = step, .gradients = gradients}); });
  });
}

TEST_P(Allocation, StopsAfterTheFirstReduceScatters) {
  expect_no_allocations([&](Transport& transport, auto repeat) {
    Shards values(kRanks, some_values());
    const ShardViews views(values);
    const auto sum = ReduceScatter::create(transport, options());
    ASSERT_TRUE(sum) << to_string(sum.status());
    repeat(
        [&](std::uint64_t step) { return (*sum)->run({.step = step, .shards = views.shards()}); });
  });
}

INSTANTIATE_TEST_SUITE_P(Sums, Allocation,
                         ::testing::Values(std::tuple("fp32", Topology::kRing),
                                           std::tuple("waterfill:4", Topology::kRing),
                                           std::tuple("waterfill:4", Topology::kDirect)));

}  // namespace
}  // namespace nf::test
