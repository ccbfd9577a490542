// Buckets of a job whose collective is a reduce-scatter: one row per rank.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/float16.h"
#include "neuron_fabric/shared_reducer.h"
#include "runtime/host_path.h"
#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::on_all_ranks;
using test::OwnDenseEngine;

constexpr std::uint32_t kRanks = 4;
constexpr std::size_t kRow = 4096;  // values; the parameter is large enough for a low-bit route

FabricOptions options(const std::string& route = "waterfill:6") {
  FabricOptions options = test::short_options(route, Admit::kForced);
  options.profile.regions = {{.name = "all"}};
  options.profile.phases = {{.from_step = 0, .routes = {{"all", route}}}};
  options.collective = Collective::kReduceScatter;
  options.parameters = {{.name = "block.weight", .module_type = "Linear", .count = kRanks * kRow}};
  return options;
}

// A slot in each row of a bucket.
std::vector<BucketSlot> slots() {
  std::vector<BucketSlot> slots;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    slots.push_back({.parameter = 0, .offset = rank * kRow, .count = kRow});
  }
  return slots;
}

TEST(ScatteredBucket, DividesHalfValuesBeforeTheirSumCanOverflow) {
  on_all_ranks(kRanks, [](Transport& transport) {
    OwnDenseEngine engine(transport);
    const auto fabric = test::make_fabric(transport, engine, options());
    ASSERT_TRUE(fabric) << to_string(fabric.status());
    std::vector<std::uint16_t> values(kRanks * kRow, float_to_float16(30'000));  // 4 x is Inf
    const Status status =
        (*fabric)->all_reduce({.is_last = true,
                               .values = Values(values.data(), values.size(), DataType::kFloat16),
                               .slots = slots()});
    ASSERT_TRUE(status.ok()) << to_string(status);
    for (std::size_t i = 0; i < kRow; ++i) {
      ASSERT_NEAR(float16_to_float(values[transport.rank() * kRow + i]), 30'000, 1'500) << i;
    }
  });
}

TEST(ScatteredBucket, MayEndWithAnEmptySlot) {
  on_all_ranks(kRanks, [](Transport& transport) {
    OwnDenseEngine engine(transport);
    const auto fabric = test::make_fabric(transport, engine, options());
    ASSERT_TRUE(fabric) << to_string(fabric.status());
    std::vector<float> values(kRanks * kRow, 1.0f);
    std::vector<BucketSlot> all = slots();
    all.push_back({.parameter = 0, .offset = values.size(), .count = 0});
    const Status status =
        (*fabric)->all_reduce({.is_last = true, .values = Values(values), .slots = all});
    EXPECT_TRUE(status.ok()) << to_string(status);
  });
}

TEST(ScatteredBucket, IsNotForTheMemorySideReducer) {
  on_all_ranks(kRanks, [](Transport& transport) {
    OwnDenseEngine engine(transport);
    const auto fabric = create_fabric(transport, options("g_binary"),
                                      host_path(transport, engine, {.name = "nf_unused"}));
    EXPECT_EQ(fabric.status().code(), ErrorCode::kBadConfig);
    EXPECT_EQ(fabric.status().message(), "the memory-side reducer has no reduce_scatter; omit it");
  });
}

TEST(OneRank, RecordsThatNothingIsSent) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter}) {
    on_all_ranks(1, [&](Transport& transport) {
      FabricOptions dense = test::short_options("fp32");
      dense.collective = collective;
      test::FabricRank rank(transport, dense);
      test::run_steps(rank, 2);
      int regions = 0;
      for (const std::string& record : rank.records()) {
        const auto json = nlohmann::json::parse(record);
        if (json["event"] != "step") continue;
        for (const auto& region : json["regions"]) {
          ++regions;
          EXPECT_EQ(region["bytes"], 0);
          EXPECT_EQ(region["up_bytes"], 0);
        }
      }
      EXPECT_GT(regions, 0);
    });
  }
}

}  // namespace
}  // namespace nf
