// What one process needs for its part in a job of up to 512 ranks. All ranks run in one thread,
// over simulated links.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "neuron_fabric/all_reduce.h"
#include "support/virtual_ranks.h"

namespace nf {
namespace {

constexpr std::size_t kCount = 16 * 1024;

std::size_t heap_bytes() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

std::size_t threads() {
  namespace fs = std::filesystem;
  const fs::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(fs::begin(tasks), fs::end(tasks)));
}

// How much an AllReduce and its endpoint of the simulated network may hold for each other rank.
constexpr std::size_t kBytesPerPeer = 1024;

struct Job {
  std::size_t bytes_per_rank = 0;  // at the peak, without values
  std::size_t threads_before = 0;
  std::size_t threads = 0;
  std::vector<std::vector<float>> results;  // by rank
};

Job run(Topology topology, std::uint32_t ranks) {
  Job job;
  job.results.assign(ranks, std::vector<float>(kCount));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < kCount; ++i) {
      job.results[rank][i] = static_cast<float>(static_cast<int>((i * 7 + rank * 3) % 11) - 5);
    }
  }
  job.threads_before = threads();
  const std::size_t before = heap_bytes();
  VirtualNetwork network(ranks, VirtualLinks{});
  std::vector<std::unique_ptr<Transport>> ends;
  std::vector<std::unique_ptr<AllReduce>> sums;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    ends.push_back(network.endpoint(rank));
    sums.push_back(std::move(
        *AllReduce::create(*ends.back(), {.codec = "waterfill:4", .topology = topology})));
    const Gradient gradient{.parameter = 1, .values = Values(job.results[rank])};
    EXPECT_TRUE(sums[rank]->start({.gradients = std::span(&gradient, 1)}).ok());
  }
  std::size_t peak = 0;
  std::size_t calls = 0;
  test::advance_all(network, ranks, [&](std::uint32_t rank) {
    if (++calls % (16 * ranks) == 0) peak = std::max(peak, heap_bytes());
    return sums[rank]->advance();
  });
  job.bytes_per_rank = (peak - before) / ranks;
  job.threads = threads();
  return job;
}

struct Case {
  Topology topology;
  std::uint32_t ranks;
};

class HundredsOfRanks : public testing::TestWithParam<Case> {};

TEST_P(HundredsOfRanks, NeedNoThreadsAndLittleMemory) {
  const auto [topology, ranks] = GetParam();
  const Job job = run(topology, ranks);
  for (const auto& result : job.results) ASSERT_EQ(result, job.results[0]);
  EXPECT_EQ(job.threads, job.threads_before);
  EXPECT_LE(job.bytes_per_rank, sizeof(float) * kCount + kBytesPerPeer * ranks);
}

// Fewer ranks for the second topology: twice as many take 5 × the time.
INSTANTIATE_TEST_SUITE_P(Topologies, HundredsOfRanks,
                         testing::Values(Case{Topology::kTree, 512},
                                         Case{Topology::kHalvingDoubling, 256}),
                         [](const auto& test) {
                           return std::string(to_string(test.param.topology));
                         });

}  // namespace
}  // namespace nf
