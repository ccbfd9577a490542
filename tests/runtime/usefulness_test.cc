// Whether low bits pay on links of known speed.
#include "runtime/usefulness.h"

#include <gtest/gtest.h>

#include "support/fabric_job.h"

namespace nf {
namespace {

const AllReduceOptions kDirect{.topology = Topology::kDirect};
constexpr std::uint32_t kRanks = 4;

Binding binding_of(const std::string& route) {
  std::vector<ModelParameter> model = test::small_model();
  model[0].count = 4 << 20;  // large enough for bandwidth to matter
  Expected<Binding> binding = Binding::make(test::short_profile(route), std::move(model));
  EXPECT_TRUE(binding) << to_string(binding.status());
  return *binding;
}

CostFigures figures(double gbps) {
  const double bytes_per_second = gbps * 1e9 / 8;
  return {.link = {.latency = 50e-6,
                   .bytes_per_second = bytes_per_second,
                   .dense_latency = 200e-6,
                   .dense_bytes_per_second = bytes_per_second},
          .codecs = {{"waterfill:4", {.seconds_per_value = 5e-9}}}};
}

// One bucket with everything in it, done `done` seconds after it was ready.
TrainingStep step_of(const Binding& binding, double done, const std::string& route) {
  TrainingStep step;
  BucketLayout layout;
  for (std::uint32_t i = 0; i < binding.parameters().size(); ++i) {
    layout.slots.push_back({.parameter = i, .offset = 0, .count = binding.parameters()[i].count});
  }
  step.buckets = {layout};
  step.routes = {"fp32", route};
  step.statistics.buckets = {{.ready = 0, .done = done}};
  return step;
}

class OnALinkOf : public testing::TestWithParam<std::pair<double, bool>> {};
INSTANTIATE_TEST_SUITE_P(Gbps, OnALinkOf,
                         testing::Values(std::pair{0.2, true}, std::pair{1.0, true},
                                         std::pair{400.0, false}));

TEST_P(OnALinkOf, DecidesWhetherLowBitsPay) {
  const Binding binding = binding_of("waterfill:4");
  Usefulness usefulness(binding, figures(GetParam().first), kRanks, kDirect);
  const Usefulness::Prediction dense =
      usefulness.predict(step_of(binding, 0, "fp32"), std::vector<std::string>{"fp32", "fp32"});
  usefulness.observe(step_of(binding, dense.exposed_seconds, "fp32"));
  const std::vector<bool> useful = usefulness.decide(10, {false, false});
  EXPECT_FALSE(useful[0]);  // the head is always dense
  EXPECT_EQ(useful[1], GetParam().second);
}

TEST(Usefulness, PricesOnlyTrafficBetweenHostGroups) {
  const Binding binding = binding_of("waterfill:4");
  const auto predict = [&](const AllReduceOptions& sum) {
    const Usefulness usefulness(binding, figures(1.0), kRanks, sum);
    return usefulness.predict(step_of(binding, 0, "waterfill:4"),
                              std::vector<std::string>{"fp32", "waterfill:4"});
  };
  const Usefulness::Prediction flat = predict(kDirect);
  const Usefulness::Prediction grouped =
      predict({.topology = Topology::kHierarchical, .host_group_size = 2});
  EXPECT_GT(grouped.bytes, flat.bytes);  // FP32 inside host groups
  EXPECT_LT(grouped.exposed_seconds, flat.exposed_seconds);
}

TEST(Usefulness, CountsTheLatencyOfEachRouteThatIsNotJoined) {
  const Binding binding = binding_of("waterfill:4");
  const auto seconds = [&](bool joins_routes, const std::string& head) {
    const Usefulness usefulness(binding, figures(1.0), kRanks, kDirect, Collective::kAllReduce,
                                joins_routes);
    return usefulness
        .predict(step_of(binding, 0, "fp32"), std::vector<std::string>{head, "waterfill:4"})
        .exposed_seconds;
  };
  const double latency = seconds(false, "waterfill:4") - seconds(true, "waterfill:4");
  EXPECT_GT(latency, 4 * figures(1.0).link.latency);  // agreement, statistics and sums
  EXPECT_DOUBLE_EQ(seconds(false, "fp32"), seconds(true, "fp32"));
}

TEST(Usefulness, ConsidersEverythingUsefulBeforeTheFirstStep) {
  const Binding binding = binding_of("waterfill:4");
  const Usefulness usefulness(binding, figures(400), kRanks, kDirect);
  EXPECT_EQ(usefulness.decide(0, {false, false}), (std::vector<bool>{true, true}));
}

TEST(Usefulness, CorrectsTheTimeOfLowBits) {
  const Binding binding = binding_of("waterfill:4");
  Usefulness usefulness(binding, figures(1.0), kRanks, kDirect);
  const std::vector<std::string> dense = {"fp32", "fp32"};
  const std::vector<std::string> low_bit = {"fp32", "waterfill:4"};
  const double dense_seconds =
      usefulness.predict(step_of(binding, 0, "fp32"), dense).exposed_seconds;
  EXPECT_LT(usefulness.predict(step_of(binding, 0, "fp32"), low_bit).exposed_seconds,
            dense_seconds);
  // They take twice as long as the engine.
  for (int i = 0; i < 60; ++i) {
    usefulness.observe(step_of(binding, 2 * dense_seconds, "waterfill:4"));
  }
  EXPECT_NEAR(usefulness.predict(step_of(binding, 0, "fp32"), low_bit).exposed_seconds,
              2 * dense_seconds, 0.05 * dense_seconds);
  EXPECT_FALSE(usefulness.decide(70, {false, true})[1]);
}

TEST(Usefulness, DoesNotCorrectAGivenLink) {
  const Binding binding = binding_of("waterfill:4");
  CostFigures given = figures(1.0);
  given.is_given = true;
  Usefulness usefulness(binding, given, kRanks, kDirect);
  usefulness.observe(step_of(binding, 100, "waterfill:4"));
  EXPECT_EQ(usefulness.low_bit_correction(), 1);
  EXPECT_TRUE(usefulness.decide(10, {false, true})[1]);
}

TEST(Usefulness, CountsTheBytesOfEveryRoute) {
  const Binding binding = binding_of("waterfill:4");
  const Usefulness usefulness(binding, figures(1.0), kRanks, kDirect);
  const auto bytes = [&](const std::string& route) {
    return static_cast<double>(
        usefulness.predict(step_of(binding, 0, "fp32"), std::vector<std::string>{"fp32", route})
            .bytes);
  };
  EXPECT_NEAR(bytes("waterfill:4") / bytes("fp32"), 4.0 / 32, 0.005);
}

}  // namespace
}  // namespace nf
