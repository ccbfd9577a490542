// Ranks need not finish their buckets in the same order, and hold the same statistics all the same.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

// Energies of which the least two are lost beside the first, unless they come before it.
constexpr std::uint32_t kBuckets = 3;
const std::vector<std::vector<float>> kValues = {{1.0f, 0.0f},
                                                 {std::ldexp(1.0f, -27), std::ldexp(1.0f, -27)},
                                                 {std::ldexp(1.0f, -27), std::ldexp(1.0f, -27)}};

FabricOptions options() {
  FabricOptions own{.profile = static_profile("fp32"), .timeout = std::chrono::seconds(30)};
  for (std::uint32_t i = 0; i < kBuckets; ++i) {
    own.parameters.push_back(
        {.name = "block" + std::to_string(i), .module_type = "Linear", .count = 2, .rows = 0});
  }
  return own;
}

// The statistics of one step whose buckets are finished in this order.
std::string statistics_of(Transport& transport, const std::vector<std::uint32_t>& order) {
  test::OwnDenseSum engine(transport);
  const auto fabric = Fabric::create(transport, engine, options());
  EXPECT_TRUE(fabric) << to_string(fabric.status());
  std::vector<std::vector<float>> values = kValues;
  std::vector<std::unique_ptr<BucketSum>> sums;
  for (std::uint32_t i = 0; i < kBuckets; ++i) {
    auto sum = (*fabric)->begin({.index = i,
                                 .is_last = i + 1 == kBuckets,
                                 .values = Values(values[i]),
                                 .slots = {{.parameter = i, .offset = 0, .count = 2}}});
    EXPECT_TRUE(sum) << to_string(sum.status());
    EXPECT_TRUE(engine.sum((*sum)->dense()).ok());
    sums.push_back(std::move(*sum));
  }
  for (const std::uint32_t i : order) EXPECT_TRUE((*fabric)->finish(*sums[i]).ok());
  EXPECT_TRUE((*fabric)->end_step().ok());
  return nlohmann::json::parse((*fabric)->state())["to_observe"][0]["regions"].dump();
}

TEST(BucketOrder, DoesNotChangeTheStatistics) {
  std::vector<std::string> statistics(2);
  test::on_all_ranks(2, [&](Transport& transport) {
    const std::uint32_t rank = transport.rank();
    statistics[rank] = statistics_of(transport, rank == 0 ? std::vector<std::uint32_t>{0, 1, 2}
                                                          : std::vector<std::uint32_t>{2, 1, 0});
  });
  EXPECT_EQ(statistics[0], statistics[1]);
}

}  // namespace
}  // namespace nf
