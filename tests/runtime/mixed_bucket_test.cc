// Buckets with several routes and dense values: one exchange sums them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "neuron_fabric/fabric.h"
#include "support/fabric_job.h"
#include "support/generator.h"
#include "support/ranks.h"
#include "support/typed_values.h"

namespace nf {
namespace {

using test::on_all_ranks;
using test::same_bits;

constexpr std::uint32_t kRanks = 4;

// Two parameters for each of three routes, and dense ones: `dense` values, and a small one.
struct Model {
  explicit Model(std::size_t dense = 1500) {
    for (const char* region : {"one", "two", "three"}) {
      parameters.push_back(
          {.name = std::string(region) + ".a", .module_type = "Linear", .count = 4096, .rows = 64});
      parameters.push_back(
          {.name = std::string(region) + ".b", .module_type = "Linear", .count = 2048, .rows = 32});
    }
    parameters.push_back(
        {.name = "head.weight", .module_type = "Linear", .count = dense, .rows = 0});
    parameters.push_back({.name = "norm", .module_type = "LayerNorm", .count = 60, .rows = 0});
  }
  std::vector<ModelParameter> parameters;
};

FabricOptions options_of(const Model& model, Collective collective = Collective::kAllReduce) {
  FabricOptions options{.parameters = model.parameters,
                        .collective = collective,
                        .admit = Admit::kForced,
                        .timeout = std::chrono::seconds(60)};
  options.profile.name = "mixed";
  for (const char* region : {"one", "two", "three", "head"}) {
    options.profile.regions.push_back({.name = region, .names = {std::string(region) + ".*"}});
  }
  options.profile.regions.push_back({.name = "other"});
  options.profile.phases = {{.from_step = 0,
                             .routes = {{"one", "waterfill:4"},
                                        {"two", "g_ternary+ef"},
                                        {"three", "powersgd:2"},
                                        {"head", "fp32"},
                                        {"other", "waterfill:4"}}}};
  if (collective == Collective::kReduceScatter) {
    options.profile.phases[0].routes["three"] = "marsit+ef";
  }
  return options;
}

// Counts its sums.
class CountingEngine final : public DenseEngine {
 public:
  explicit CountingEngine(Transport& transport) : engine_(transport) {}
  Status sum(Values values) override {
    ++calls;
    return engine_.sum(values);
  }
  Status reduce_scatter(Values rows, Reduction reduction) override {
    ++calls;
    return engine_.reduce_scatter(rows, reduction);
  }
  int calls = 0;

 private:
  test::OwnDenseEngine engine_;
};

// Multiples of 1/8, whose sums and means over four ranks are exact in all types.
std::vector<float> some_values(std::size_t count, std::uint64_t seed) {
  test::Generator random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = (static_cast<float>(random.below(17)) - 8) / 8;
  return values;
}

// One rank. The parameters are in buckets as `buckets` lists them.
class Rank {
 public:
  using Gradients = std::vector<std::vector<float>>;

  Rank(Transport& transport, const Model& model, FabricOptions options,
       DataType type = DataType::kFloat32)
      : transport_(transport),
        engine_(transport),
        gather_(transport),
        scatters_(options.collective == Collective::kReduceScatter),
        model_(model),
        type_(type) {
    auto made = test::make_fabric(transport, engine_, std::move(options));
    EXPECT_TRUE(made) << to_string(made.status());
    fabric_ = std::move(*made);
    engine_.calls = 0;  // without those of the link measurement
  }

  // The results of a step, by parameter.
  Gradients step(const std::vector<std::vector<std::uint32_t>>& buckets) {
    const std::uint64_t seed = 1 + 100 * (kRanks * fabric_->step() + transport_.rank());
    Gradients gradients;
    for (std::size_t i = 0; i < model_.parameters.size(); ++i) {
      gradients.push_back(some_values(model_.parameters[i].count, seed + i));
    }
    for (std::uint32_t index = 0; index < buckets.size(); ++index) {
      std::vector<float> flat;
      Bucket bucket{
          .index = index, .is_last = index + 1 == buckets.size(), .values = {}, .slots = {}};
      for (const std::uint32_t p : buckets[index]) {
        bucket.slots.push_back(
            {.parameter = p, .offset = flat.size(), .count = gradients[p].size()});
        flat.insert(flat.end(), gradients[p].begin(), gradients[p].end());
      }
      test::TypedValues values(type_, flat);
      bucket.values = values.view();
      const auto reduce = [this](const Bucket& own) { return fabric_->all_reduce(own); };
      const Status status =
          scatters_ ? test::reduce_rows(transport_, gather_, bucket, reduce) : reduce(bucket);
      EXPECT_TRUE(status.ok()) << to_string(status);
      const std::vector<float> sums = values.widened();
      for (const BucketSlot& slot : bucket.slots) {
        const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(slot.offset);
        gradients[slot.parameter].assign(begin, begin + static_cast<std::ptrdiff_t>(slot.count));
      }
    }
    return gradients;
  }

  Fabric& fabric() { return *fabric_; }
  int engine_calls() const { return engine_.calls; }

 private:
  Transport& transport_;
  CountingEngine engine_;
  test::OwnDenseEngine gather_;
  const bool scatters_;
  const Model& model_;
  const DataType type_;
  std::unique_ptr<Fabric> fabric_;
};

const std::vector<std::vector<std::uint32_t>> kOneBucket = {{7, 6, 5, 4, 3, 2, 1, 0}};

class EveryMixedBucket : public testing::TestWithParam<Collective> {};
INSTANTIATE_TEST_SUITE_P(Collectives, EveryMixedBucket,
                         testing::Values(Collective::kAllReduce, Collective::kReduceScatter),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST_P(EveryMixedBucket, GivesEveryRouteTheBitsOfABucketOfItsOwn) {
  const Model model;
  on_all_ranks(kRanks, [&](Transport& transport) {
    Rank together(transport, model, options_of(model, GetParam()));
    Rank alone(transport, model, options_of(model, GetParam()));
    for (int step = 0; step < 4; ++step) {
      const Rank::Gradients actual = together.step(kOneBucket);
      const Rank::Gradients expected = alone.step({{7, 6}, {5, 4}, {3, 2}, {1, 0}});
      for (std::size_t p = 0; p < actual.size(); ++p) {
        EXPECT_TRUE(same_bits(actual[p], expected[p])) << model.parameters[p].name;
      }
    }
  });
}

TEST_P(EveryMixedBucket, SumsSmallDenseValuesWithoutTheEngine) {
  const Model model;
  std::vector<Rank::Gradients> results(kRanks);
  on_all_ranks(kRanks, [&](Transport& transport) {
    Rank rank(transport, model, options_of(model, GetParam()));
    results[transport.rank()] = rank.step(kOneBucket);
    EXPECT_EQ(rank.engine_calls(), 0);
    rank.step({{7, 6}, {5, 4, 3, 2, 1, 0}});  // a bucket that is dense as a whole
    EXPECT_EQ(rank.engine_calls(), 1);
  });
  for (const std::size_t p : {6u, 7u}) {
    for (std::size_t i = 0; i < results[0][p].size(); ++i) {
      float mean = 0;
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        mean += some_values(model.parameters[p].count, 1 + 100 * rank + p)[i] / kRanks;
      }
      ASSERT_EQ(results[0][p][i], mean);
    }
  }
  for (const Rank::Gradients& one : results) EXPECT_EQ(one, results[0]);
}

TEST_P(EveryMixedBucket, GivesLargeDenseValuesToTheEngine) {
  const Model model((1 << 18) + 1);
  std::vector<Rank::Gradients> results(kRanks);
  on_all_ranks(kRanks, [&](Transport& transport) {
    Rank rank(transport, model, options_of(model, GetParam()));
    results[transport.rank()] = rank.step(kOneBucket);
    EXPECT_EQ(rank.engine_calls(), 1);
  });
  for (const Rank::Gradients& one : results) EXPECT_EQ(one, results[0]);
}

TEST(MixedBucket, HasTheSameBitsOnAllRanksInBfloat16) {
  const Model model;
  std::vector<Rank::Gradients> results(kRanks);
  on_all_ranks(kRanks, [&](Transport& transport) {
    Rank rank(transport, model, options_of(model), DataType::kBfloat16);
    rank.step(kOneBucket);
    results[transport.rank()] = rank.step(kOneBucket);
    EXPECT_EQ(rank.engine_calls(), 0);
  });
  for (const Rank::Gradients& one : results) EXPECT_EQ(one, results[0]);
}

// Every region of the bucket has sent bytes and taken time, the dense one too.
TEST(MixedBucket, CountsBytesAndTimeOfEveryRegion) {
  const Model model;
  on_all_ranks(kRanks, [&](Transport& transport) {
    Rank rank(transport, model, options_of(model));
    rank.step(kOneBucket);
    nlohmann::json step;
    for (const std::string& record : rank.fabric().drain()) {
      const auto json = nlohmann::json::parse(record);
      if (json["event"] == "step") step = json;
    }
    ASSERT_EQ(step["regions"].size(), 5u);
    for (const auto& region : step["regions"]) {
      SCOPED_TRACE(region.dump());
      EXPECT_GT(region["bytes"].get<double>(), 0);
      EXPECT_GT(region["seconds"].get<double>(), 0);
    }
    // waterfill:4 sends an eighth of FP32, and the dense head about as much as an engine.
    const auto ratio = [&](int region) {
      return step["regions"][region]["bytes"].get<double>() /
             step["regions"][region]["dense_bytes"].get<double>();
    };
    EXPECT_NEAR(ratio(0), 0.125, 0.08);
    EXPECT_NEAR(ratio(3), 1, 0.1);
  });
}

}  // namespace
}  // namespace nf
