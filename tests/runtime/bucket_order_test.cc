// Ranks may finish their buckets in different orders and still hold the same statistics.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/bucket_work.h"
#include "support/fabric_job.h"
#include "support/generator.h"
#include "support/ranks.h"

namespace nf {
namespace {

// The two small energies are lost in rounding if they are added after the large one.
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
  test::OwnDenseEngine engine(transport);
  const auto fabric = test::make_fabric(transport, engine, options());
  EXPECT_TRUE(fabric) << to_string(fabric.status());
  std::vector<std::vector<float>> values = kValues;
  std::vector<std::unique_ptr<BucketWork>> sums;
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

// The backbone at low bits and the head dense, in one bucket with the parameters in this order.
// With three ranks, the order of addition depends on the position in the gathered values.
std::vector<std::vector<float>> mean_of(Transport& transport, const std::string& route,
                                        const std::vector<std::uint32_t>& order,
                                        std::string& statistics) {
  test::OwnDenseEngine engine(transport);
  FabricOptions own = test::short_options(route, Admit::kForced);
  own.parameters = test::small_model();
  const std::vector<ModelParameter> model = own.parameters;
  const auto fabric = test::make_fabric(transport, engine, std::move(own));
  EXPECT_TRUE(fabric) << to_string(fabric.status());
  std::vector<std::vector<float>> mean(model.size());
  for (std::uint64_t step = 0; step < 3; ++step) {
    std::vector<float> values;
    Bucket bucket;
    bucket.is_last = true;
    for (const std::uint32_t parameter : order) {
      test::Generator random(100 * step + 10 * parameter + transport.rank());
      const std::vector<float> gradient = random.normal(model[parameter].count);
      bucket.slots.push_back(
          {.parameter = parameter, .offset = values.size(), .count = gradient.size()});
      values.insert(values.end(), gradient.begin(), gradient.end());
    }
    bucket.values = Values(values);
    const Status status = (*fabric)->all_reduce(bucket);
    EXPECT_TRUE(status.ok()) << to_string(status);
    for (const BucketSlot& slot : bucket.slots) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(slot.offset);
      mean[slot.parameter].insert(mean[slot.parameter].end(), begin,
                                  begin + static_cast<std::ptrdiff_t>(slot.count));
    }
  }
  statistics = nlohmann::json::parse((*fabric)->state())["to_observe"].back()["regions"].dump();
  return mean;
}

TEST(BucketOrder, DoesNotChangeTheSums) {
  for (const std::string route :
       {"waterfill:3+ef", "dynamiq:5", "topkc:8", "g_ternary+ef", "powersgd:2"}) {
    test::on_all_ranks(3, [&](Transport& transport) {
      std::string first_statistics;
      std::string rebuilt_statistics;
      const auto first = mean_of(transport, route, {0, 1, 2, 3, 4}, first_statistics);
      const auto rebuilt = mean_of(transport, route, {4, 1, 3, 2, 0}, rebuilt_statistics);
      EXPECT_EQ(rebuilt, first) << route;
      EXPECT_EQ(rebuilt_statistics, first_statistics) << route;
    });
  }
}

}  // namespace
}  // namespace nf
