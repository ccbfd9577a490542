// After the first calls an all-reduce keeps what it has: further calls allocate nothing. This
// binary has an operator new of its own, which counts.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <new>
#include <string>
#include <tuple>
#include <vector>

#include "support/generator.h"
#include "support/ranks.h"

namespace {

std::atomic<bool> is_counting = false;
std::atomic<std::size_t> allocations = 0;

void* allocate(std::size_t size, std::size_t alignment) {
  if (is_counting) ++allocations;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

namespace nf::test {
namespace {

constexpr std::uint32_t kRanks = 2;
constexpr int kWarmUps = 30;  // queues grow to what the order of events can make of them
constexpr int kCalls = 5;

class Allocation : public ::testing::TestWithParam<std::tuple<std::string, Topology>> {};

TEST_P(Allocation, StopsAfterTheFirstCalls) {
  const auto& [codec, topology] = GetParam();
  const AllReduceOptions options{.codec = codec, .topology = topology, .tile_bytes = 4096};
  std::barrier all_are_here(kRanks);
  allocations = 0;
  on_all_ranks(kRanks, [&](Transport& transport) {
    Parameters parameters = {std::vector<float>(20'000, 1.5f), std::vector<float>(777, -2.0f)};
    const std::vector<Gradient> gradients = gradients_of(parameters);
    const auto sum = AllReduce::create(transport, options);
    ASSERT_TRUE(sum) << to_string(sum.status());
    for (int call = 0; call < kWarmUps + kCalls; ++call) {
      if (call == kWarmUps) {
        all_are_here.arrive_and_wait();
        is_counting = true;
      }
      const Status status =
          (*sum)->run({.step = static_cast<std::uint64_t>(call), .gradients = gradients});
      ASSERT_TRUE(status.ok()) << to_string(status);
    }
    all_are_here.arrive_and_wait();
    is_counting = false;
  });
  EXPECT_EQ(allocations, 0u);
}

INSTANTIATE_TEST_SUITE_P(AllReduce, Allocation,
                         ::testing::Values(std::tuple("fp32", Topology::kRing),
                                           std::tuple("waterfill:4", Topology::kRing),
                                           std::tuple("waterfill:4", Topology::kDirect)));

}  // namespace
}  // namespace nf::test
