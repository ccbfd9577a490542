// A step with NaN or Inf is skipped and must not affect route memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/fabric_job.h"
#include "support/ranks.h"
#include "support/spellings.h"

namespace nf {
namespace {

using test::FabricRank;
using test::on_all_ranks;
using Gradients = FabricRank::Gradients;

class SkippedStep : public testing::TestWithParam<std::tuple<Collective, std::string>> {
 protected:
  static FabricOptions options() {
    FabricOptions options = test::short_options(std::get<1>(GetParam()), Admit::kForced);
    options.collective = std::get<0>(GetParam());
    return options;
  }

  static void run_step(FabricRank& rank, const std::function<void(Gradients&)>& spoil = {}) {
    const Status status = rank.run_step(spoil);
    ASSERT_TRUE(status.ok()) << to_string(status);
  }

  static float max_magnitude(const std::vector<float>& values) {
    float max = 0;
    for (const float value : values) max = std::max(max, std::abs(value));
    return max;
  }

  static std::vector<Fabric::Memory> memory_of(FabricRank& rank) {
    auto memory = rank.fabric().memory();
    EXPECT_TRUE(memory) << to_string(memory.status());
    return *memory;
  }

  static void expect_equal(const std::vector<Fabric::Memory>& one,
                           const std::vector<Fabric::Memory>& other) {
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i].route, other[i].route);
      EXPECT_EQ(one[i].entry, other[i].entry);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Routes, SkippedStep,
                         testing::Combine(testing::Values(Collective::kAllReduce),
                                          testing::ValuesIn(test::routes_with_memory())));
// powersgd has no reduce-scatter.
INSTANTIATE_TEST_SUITE_P(Scattered, SkippedStep,
                         testing::Combine(testing::Values(Collective::kReduceScatter),
                                          testing::Values("waterfill:3+ef", "g_binary+ef")));

// Values are infinite in the dense head, and large but finite in a block.
TEST_P(SkippedStep, LeavesNoMemory) {
  on_all_ranks(2, [](Transport& transport) {
    FabricRank rank(transport, options());
    run_step(rank);
    run_step(rank);
    const std::vector<Fabric::Memory> before = memory_of(rank);
    auto state = nlohmann::json::parse(rank.fabric().state());
    EXPECT_FALSE(before.empty());

    run_step(rank, [&](Gradients& own) {
      for (float& value : own[0]) value *= 1e12f;
      if (transport.rank() == 1) own[3][5] = std::numeric_limits<float>::infinity();
    });
    EXPECT_EQ(rank.fabric().should_step(), false);
    EXPECT_GT(max_magnitude(rank.gradients()[0]), 1e6f);  // one sign sum alone may be 0
    expect_equal(memory_of(rank), before);

    // A job without the third step.
    FabricRank without(transport, options());
    ASSERT_EQ(state["step"], 2);
    state["step"] = 3;
    ASSERT_TRUE(without.fabric().load_state(state.dump()).ok());
    ASSERT_TRUE(without.fabric().load_memory(before).ok());
    for (int step = 3; step < 6; ++step) {
      run_step(rank);
      run_step(without);
      EXPECT_EQ(rank.gradients(), without.gradients()) << "step " << step;
    }
    expect_equal(memory_of(rank), memory_of(without));
  });
}

// Two skipped steps in a row.
TEST_P(SkippedStep, MayOccurTwiceInARow) {
  on_all_ranks(2, [](Transport& transport) {
    FabricRank rank(transport, options());
    run_step(rank);
    const std::vector<Fabric::Memory> before = memory_of(rank);
    for (int times = 0; times < 2; ++times) {
      run_step(rank, [&](Gradients& own) { own[3][5] = std::numeric_limits<float>::quiet_NaN(); });
      expect_equal(memory_of(rank), before);
    }
    run_step(rank);
    EXPECT_EQ(rank.fabric().should_step(), true);
    ASSERT_FALSE(before.empty());
    const std::vector<Fabric::Memory> after = memory_of(rank);
    EXPECT_FALSE(
        std::ranges::equal(after, before, {}, &Fabric::Memory::entry, &Fabric::Memory::entry));
  });
}

}  // namespace
}  // namespace nf
