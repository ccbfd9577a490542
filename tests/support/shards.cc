#include "support/shards.h"

#include <gtest/gtest.h>

namespace nf::test {

ShardViews::ShardViews(Shards& values) {
  for (Parameters& parameters : values) gradients_.push_back(gradients_of(parameters));
  for (const std::vector<Gradient>& gradients : gradients_) shards_.push_back({gradients});
}

std::vector<Parameters> reduce_scatter(const AllReduceOptions& options, std::vector<Shards> by_rank,
                                       const FaultPlan& faults) {
  std::vector<Parameters> own(by_rank.size());
  on_all_ranks(
      static_cast<std::uint32_t>(by_rank.size()),
      [&](Transport& transport) {
        const auto sum = ReduceScatter::create(transport, options);
        ASSERT_TRUE(sum) << to_string(sum.status());
        Shards& values = by_rank[transport.rank()];
        const ShardViews views(values);
        const Status status = (*sum)->run({.step = 3, .shards = views.shards()});
        EXPECT_TRUE(status.ok()) << to_string(status);
        own[transport.rank()] = values[transport.rank()];
      },
      faults);
  return own;
}

}  // namespace nf::test
