#include "support/ranks.h"

#include <gtest/gtest.h>

#include <thread>

namespace nf::test {

void on_all_ranks(std::uint32_t ranks, const std::function<void(Transport&)>& work,
                  const FaultPlan& faults, std::uint32_t faulty) {
  InprocNetwork network(ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    std::unique_ptr<Transport> end = network.endpoint(rank);
    if (!faults.empty() && rank == faulty) {
      end = std::make_unique<FaultyTransport>(std::move(end), faults);
    }
    threads.emplace_back([&work, own = std::move(end)] { work(*own); });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<Gradient> gradients_of(Parameters& parameters) {
  std::vector<Gradient> gradients;
  for (std::vector<float>& values : parameters) {
    gradients.push_back({.parameter = parameter_key("p" + std::to_string(gradients.size())),
                         .values = Values(values)});
  }
  return gradients;
}

std::vector<Parameters> all_reduce(const AllReduceOptions& options, std::vector<Parameters> by_rank,
                                   std::uint64_t step) {
  on_all_ranks(static_cast<std::uint32_t>(by_rank.size()), [&](Transport& transport) {
    const auto sum = AllReduce::create(transport, options);
    ASSERT_TRUE(sum) << to_string(sum.status());
    const std::vector<Gradient> gradients = gradients_of(by_rank[transport.rank()]);
    const Status status = (*sum)->run({.step = step, .gradients = gradients});
    EXPECT_TRUE(status.ok()) << to_string(status);
  });
  return by_rank;
}

}  // namespace nf::test
