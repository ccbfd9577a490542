// Ranks compare hashes of their calls, and the descriptions only if those differ. They agree on the
// loss scale with the highest version.
#include "collective/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/ranks.h"

namespace nf {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

struct Outcome {
  Status status;
  LossScale scale;
  std::uint64_t bytes = 0;
};

// Runs the stage until it is done or fails.
Status complete(Transport& transport, Agreement& agreement,
                Duration timeout = std::chrono::seconds(30)) {
  for (;;) {
    NF_RETURN_IF_ERROR(transport.progress());
    const Expected<bool> is_done = agreement.advance();
    if (!is_done || *is_done) return is_done ? Status() : is_done.status();
    NF_RETURN_IF_ERROR(transport.wait(transport.now() + timeout));
  }
}

// The outcome on every rank, with these calls and scales by rank.
std::vector<Outcome> agree_on(const std::vector<CallDescription>& calls,
                              const std::vector<LossScale>& scales) {
  std::vector<Outcome> outcomes(scales.size());
  test::on_all_ranks(static_cast<std::uint32_t>(scales.size()), [&](Transport& transport) {
    Agreement agreement(transport, calls[transport.rank()], scales[transport.rank()]);
    Outcome& outcome = outcomes[transport.rank()];
    outcome.status = complete(transport, agreement);
    outcome.bytes = agreement.bytes_sent();
    if (outcome.status.ok()) outcome.scale = agreement.loss_scale();
  });
  return outcomes;
}

std::vector<Outcome> agree_on(const std::vector<LossScale>& scales) {
  return agree_on(std::vector<CallDescription>(scales.size(), {.values = 5, .step = 7}), scales);
}

std::vector<Outcome> agree_on_calls(const std::vector<CallDescription>& calls) {
  return agree_on(calls, std::vector<LossScale>(calls.size()));
}

void expect_scale(const std::vector<LossScale>& by_rank, const LossScale& expected) {
  for (const Outcome& outcome : agree_on(by_rank)) {
    EXPECT_TRUE(outcome.status.ok()) << to_string(outcome.status);
    EXPECT_EQ(outcome.scale, expected);
  }
}

TEST(Agreement, SendsOnlyHashesIfTheCallsAreEqual) {
  for (const std::uint32_t ranks : {1u, 2u, 3u, 8u, 9u}) {
    for (const Outcome& outcome :
         agree_on_calls(std::vector<CallDescription>(ranks, {.step = 7}))) {
      EXPECT_TRUE(outcome.status.ok()) << to_string(outcome.status);
      EXPECT_EQ(outcome.bytes, Agreement::bytes_to_send(ranks));
      EXPECT_LE(outcome.bytes, Agreement::rounds(ranks) * 64);
    }
  }
}

TEST(Agreement, SendsTheDescriptionsIfOneRankDiffers) {
  for (std::uint32_t ranks = 2; ranks <= 9; ++ranks) {
    for (std::uint32_t differing = 0; differing < ranks; ++differing) {
      SCOPED_TRACE(std::to_string(differing) + " of " + std::to_string(ranks));
      std::vector<CallDescription> calls(ranks, {.seed = 1, .step = 7});
      calls[differing].seed = 2;
      for (const Outcome& outcome : agree_on_calls(calls)) {
        EXPECT_EQ(outcome.status.code(), ErrorCode::kDisagreement);
        EXPECT_THAT(outcome.status.message(),
                    HasSubstr("rank " + std::to_string(differing) + " has"));
        EXPECT_THAT(outcome.status.message(), HasSubstr("seed"));
        EXPECT_EQ(outcome.bytes, Agreement::bytes_to_send(ranks) +
                                     Agreement::rounds(ranks) * (2 * sizeof(CallDescription) + 32));
      }
    }
  }
}

// Rank 2 dies between the hashes and the descriptions: four operations are the two rounds of the
// hashes.
TEST(Agreement, FailsOnAllRanksIfOneDiesBeforeItSendsItsDescription) {
  std::vector<Status> statuses(4);
  test::on_all_ranks(
      4,
      [&](Transport& transport) {
        Agreement agreement(transport, {.step = transport.rank() == 1 ? 8u : 7u}, {});
        Status& status = statuses[transport.rank()];
        status = complete(transport, agreement);
        if (!status.ok()) transport.abort(status);
      },
      {{.operation = 4, .kind = Fault::Kind::kDie}}, 2);
  for (const std::uint32_t rank : {0u, 1u, 3u}) {
    EXPECT_THAT(statuses[rank].code(), AnyOf(ErrorCode::kPeerLost, ErrorCode::kAborted)) << rank;
  }
}

TEST(Agreement, RejectsACorruptHash) {
  std::vector<Status> statuses(2);
  test::on_all_ranks(
      2,
      [&](Transport& transport) {
        Agreement agreement(transport, {.step = 7}, {});
        Status& status = statuses[transport.rank()];
        status = complete(transport, agreement);
        if (!status.ok()) transport.abort(status);
      },
      {{.operation = 1, .kind = Fault::Kind::kCorrupt, .byte = 20}}, 0);
  EXPECT_EQ(statuses[1].code(), ErrorCode::kCorruptFrame) << to_string(statuses[1]);
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
