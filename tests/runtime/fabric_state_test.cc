// What a Fabric saves and loads to go on elsewhere, beyond the bits of its sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/fabric_job.h"
#include "support/ranks.h"

namespace nf {
namespace {

using test::FabricRank;
using test::on_all_ranks;

FabricOptions options(Admit admit = Admit::kSafe) {
  return {.profile = test::short_profile("waterfill:4"),
          .admit = admit,
          .timeout = std::chrono::seconds(30)};
}

// With a loss that is observed after the step, as training does it.
void run_steps(FabricRank& rank, int steps) {
  for (int i = 0; i < steps; ++i) {
    const Status status = rank.run_step();
    ASSERT_TRUE(status.ok()) << to_string(status);
    rank.fabric().observe_loss(1.0);
  }
}

TEST(FabricState, IsWholeAfterAMemoryOfARouteThatIsNone) {
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, options());
    const std::vector<Fabric::Memory> memory = {{.route = "waterfill:99+ef", .remembered = {}}};
    EXPECT_EQ(rank.fabric().load_memory(memory).code(), ErrorCode::kBadConfig);
    const auto kept = rank.fabric().memory();
    ASSERT_TRUE(kept) << to_string(kept.status());
    EXPECT_TRUE(kept->empty());
    run_steps(rank, 6);
  });
}

TEST(FabricState, KeepsWhatWasNotUseful) {
  FabricOptions own = options(Admit::kUseful);
  own.link_gbps = 1e6;
  std::vector<std::string> texts(2);
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, own);
    run_steps(rank, 10);
    EXPECT_EQ(rank.decision("backbone"), "fp32 not_useful");
    texts[transport.rank()] = rank.fabric().state();
  });
  on_all_ranks(2, [&](Transport& transport) {
    FabricRank rank(transport, own);
    ASSERT_TRUE(rank.fabric().load_state(texts[transport.rank()]).ok());
    for (int i = 0; i < 10; ++i) {
      run_steps(rank, 1);
      EXPECT_EQ(rank.decision("backbone"), "fp32 not_useful") << "step " << rank.fabric().step();
    }
  });
}

}  // namespace
}  // namespace nf
