// Ranks agree on the loss scale with the highest version.
#include "collective/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/ranks.h"

namespace nf {
namespace {

using testing::AnyOf;

struct Outcome {
  Status status;
  LossScale scale;
};

// The outcome on every rank, with these scales by rank.
std::vector<Outcome> agree_on(const std::vector<LossScale>& scales) {
  std::vector<Outcome> outcomes(scales.size());
  test::on_all_ranks(static_cast<std::uint32_t>(scales.size()), [&](Transport& transport) {
    Agreement agreement(transport, {.values = 5, .step = 7}, scales[transport.rank()]);
    Outcome& outcome = outcomes[transport.rank()];
    for (;;) {
      ASSERT_TRUE(transport.progress().ok());
      const Expected<bool> is_done = agreement.advance();
      outcome.status = is_done ? Status() : is_done.status();
      if (!is_done) return;
      if (*is_done) break;
      ASSERT_TRUE(transport.wait(transport.now() + std::chrono::seconds(30)).ok());
    }
    outcome.scale = agreement.loss_scale();
  });
  return outcomes;
}

void expect_scale(const std::vector<LossScale>& by_rank, const LossScale& expected) {
  for (const Outcome& outcome : agree_on(by_rank)) {
    EXPECT_TRUE(outcome.status.ok()) << to_string(outcome.status);
    EXPECT_EQ(outcome.scale, expected);
  }
}

TEST(AgreedLossScale, HasTheHighestVersion) {
  for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
    for (std::uint32_t fresh = 0; fresh < ranks; ++fresh) {
      SCOPED_TRACE(std::to_string(fresh) + " of " + std::to_string(ranks));
      std::vector<LossScale> scales(ranks, {.value = 4096, .version = 3});
      scales[fresh] = {.value = 2048, .version = 8};
      expect_scale(scales, {.value = 2048, .version = 8});
    }
  }
}

TEST(AgreedLossScale, OverridesOneStaleRank) {
  for (std::uint32_t stale = 0; stale < 5; ++stale) {
    std::vector<LossScale> scales(5, {.value = 2048, .version = 8});
    scales[stale] = {.value = 4096, .version = 3};
    expect_scale(scales, {.value = 2048, .version = 8});
  }
}

TEST(AgreedLossScale, IsUnchangedIfAllRanksHaveTheSame) {
  expect_scale({{}, {}, {}}, {.value = 1, .version = 0});
  expect_scale({{512, 4}, {512, 4}, {512, 4}, {512, 4}}, {.value = 512, .version = 4});
}

// Stale ranks may have different scales: none of them is used.
TEST(AgreedLossScale, IgnoresStaleRanksThatDiffer) {
  for (std::uint32_t fresh = 0; fresh < 4; ++fresh) {
    std::vector<LossScale> scales = {{1, 3}, {2, 3}, {4, 3}, {8, 3}};
    scales[fresh] = {.value = 2048, .version = 8};
    expect_scale(scales, {.value = 2048, .version = 8});
  }
}

TEST(AgreedLossScale, MustBeEqualOnRanksWithTheHighestVersion) {
  for (const Outcome& outcome : agree_on({{4096, 3}, {2048, 8}, {1024, 8}, {4096, 3}, {2048, 8}})) {
    EXPECT_EQ(outcome.status.code(), ErrorCode::kDisagreement);
    EXPECT_THAT(outcome.status.message(), AnyOf("rank 1 has loss scale 2048, rank 2 has 1024",
                                                "rank 2 has loss scale 1024, rank 4 has 2048"));
  }
}

}  // namespace
}  // namespace nf
