// If the calls of ranks differ, all ranks report it, and the next call may succeed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collective/agreement.h"
#include "neuron_fabric/all_reduce.h"
#include "support/generator.h"
#include "support/ranks.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::gradients_of;
using test::on_all_ranks;
using test::Parameters;
using testing::AnyOf;
using testing::IsEmpty;
using testing::MatchesRegex;

constexpr std::uint32_t kRanks = 4;

struct Call {
  AllReduceOptions options{.codec = "waterfill:4", .topology = Topology::kRing};
  std::uint64_t step = 5;
  std::uint64_t epoch = 2;
  float loss_scale = 1;
  Parameters parameters = {std::vector<float>(600, 0.5f), std::vector<float>(300, 2.0f)};
};

// The status of every rank if the call of rank 2 differs.
std::vector<Status> statuses_where_one_differs(const Call& differing) {
  std::vector<Status> statuses(kRanks);
  on_all_ranks(kRanks, [&](Transport& transport) {
    Call call = transport.rank() == 2 ? differing : Call();
    const Parameters before = call.parameters;
    const auto sum = AllReduce::create(transport, call.options);
    ASSERT_TRUE(sum) << to_string(sum.status());
    const auto gradients = gradients_of(call.parameters);
    statuses[transport.rank()] = (*sum)->run({.step = call.step,
                                              .epoch = call.epoch,
                                              .gradients = gradients,
                                              .loss_scale = call.loss_scale});
    EXPECT_EQ(call.parameters, before) << "values must not change before all agree";

    // The transport is intact: an equal call succeeds.
    Call same;
    const auto again = AllReduce::create(transport, same.options);
    const auto same_gradients = gradients_of(same.parameters);
    const Status status = (*again)->run({.step = 6, .gradients = same_gradients});
    EXPECT_TRUE(status.ok()) << to_string(status);
  });
  return statuses;
}

// The message of any of the other ranks about rank 2.
auto difference(const std::string& what, const std::string& common, const std::string& of_rank_2) {
  const std::string after = " has " + what + " " + common + ", rank 2 has " + of_rank_2;
  return AnyOf("rank 0" + after, "rank 1" + after,
               "rank 2 has " + what + " " + of_rank_2 + ", rank 3 has " + common);
}

TEST(Disagreement, IsReportedOnEveryRank) {
  Call codec, count, seed, epoch, step, topology, layout, tiles, scale;
  codec.options.codec = "dynamiq:5";
  count.parameters[0].push_back(1);
  seed.options.seed = 7;
  epoch.epoch = 3;
  step.step = 6;
  topology.options.topology = Topology::kTree;
  std::swap(layout.parameters[0], layout.parameters[1]);
  tiles.options.tile_bytes = 100;
  scale.loss_scale = 1024;
  const std::tuple<Call, std::string, std::string, std::string> cases[] = {
      {codec, "codec", "waterfill:4", "dynamiq:5"},
      {count, "value count", "900", "901"},
      {seed, "seed", "0", "7"},
      {epoch, "epoch", "2", "3"},
      {step, "step", "5", "6"},
      {topology, "topology", "ring", "tree"},
      {tiles, "tile size", "262144", "100"},
      {scale, "loss scale", "1", "1024"}};
  for (const auto& [differing, what, common, own] : cases) {
    for (const Status& status : statuses_where_one_differs(differing)) {
      EXPECT_EQ(status.code(), ErrorCode::kDisagreement);
      EXPECT_THAT(status.message(), difference(what, common, own));
    }
  }
  for (const Status& status : statuses_where_one_differs(layout)) {
    EXPECT_EQ(status.code(), ErrorCode::kDisagreement);
    EXPECT_THAT(status.message(), MatchesRegex("ranks (0 and 2|1 and 2|2 and 3) have 900 values "
                                               "each, but their parameters differ in name, shape "
                                               "or type"));
  }
}

TEST(Disagreement, NamesTheSumsOfLowRankCalls) {
  on_all_ranks(2, [](Transport& transport) {
    const auto part = static_cast<std::uint8_t>(1 + transport.rank());
    Agreement agreement(transport, describe_call("powersgd:2", {}, {}, part), {});
    Expected<bool> done = agreement.advance();
    while (done && !*done) {
      ASSERT_TRUE(transport.wait(transport.now() + std::chrono::seconds(60)).ok());
      done = agreement.advance();
    }
    EXPECT_EQ(done.status().code(), ErrorCode::kDisagreement);
    EXPECT_EQ(done.status().message(), "rank 0 is in powersgd sum 1, rank 1 in 2");
  });
}

// One matrix. Its factors do not depend on its type, nor does the first on its number of columns.
struct LowRankCall {
  std::string codec = "powersgd:2";
  std::size_t rows = 6;
  std::size_t cols = 40;
  DataType type = DataType::kFloat32;
};

// The calls of one rank.
class LowRankCaller {
 public:
  explicit LowRankCaller(Transport& transport) : transport_(transport) {}

  Status run(const LowRankCall& call, std::uint64_t step) {
    if (sum_ == nullptr || codec_ != call.codec) {
      sum_ = std::move(*AllReduce::create(transport_, {.codec = call.codec}));
      codec_ = call.codec;
    }
    test::Generator random(transport_.rank());
    values_.emplace(call.type, random.normal(call.rows * call.cols));
    const Gradient gradient{.parameter = 1, .values = values_->view(), .rows = call.rows};
    return sum_->run({.step = step, .gradients = std::span(&gradient, 1)});
  }

  const test::TypedValues& values() const { return *values_; }
  std::vector<MemoryEntry> save_memory() const { return sum_->save_memory(); }

 private:
  Transport& transport_;
  std::string codec_;
  std::unique_ptr<AllReduce> sum_;
  std::optional<test::TypedValues> values_;
};

// The first call of rank 1 differs from that of rank 0, the second does not.
void expect_disagreement(const LowRankCall& differing, const std::string& text) {
  SCOPED_TRACE(text);
  std::vector<test::TypedValues> sums(2, test::TypedValues(DataType::kFloat32, std::span<float>()));
  on_all_ranks(2, [&](Transport& transport) {
    LowRankCaller caller(transport);
    const LowRankCall call = transport.rank() == 1 ? differing : LowRankCall();
    const Status status = caller.run(call, 5);
    EXPECT_EQ(status.code(), ErrorCode::kDisagreement);
    EXPECT_EQ(status.message(), text);
    test::Generator random(transport.rank());
    EXPECT_EQ(caller.values().widened(),
              test::rounded_to(call.type, random.normal(call.rows * call.cols)))
        << "values must not change before all agree";
    EXPECT_THAT(caller.save_memory(), IsEmpty());

    const Status again = caller.run({}, 6);
    EXPECT_TRUE(again.ok()) << to_string(again);
    sums[transport.rank()] = caller.values();
  });
  EXPECT_EQ(sums[1].widened(), sums[0].widened());
}

TEST(Disagreement, ComparesTheGradientsOfPowersgdNotItsFactors) {
  const std::string layout =
      "ranks 0 and 1 have 240 values each, but their parameters differ in name, shape or type";
  expect_disagreement({.codec = "powersgd:3"},
                      "rank 0 has codec powersgd:2, rank 1 has powersgd:3");
  expect_disagreement({.codec = "fp32"}, "rank 0 has codec powersgd:2, rank 1 has fp32");
  expect_disagreement({.cols = 50}, "rank 0 has value count 240, rank 1 has 300");
  expect_disagreement({.rows = 8, .cols = 30}, layout);
  expect_disagreement({.type = DataType::kBfloat16}, layout);
}

}  // namespace
}  // namespace nf
