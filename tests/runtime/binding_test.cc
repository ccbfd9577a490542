#include "neuron_fabric/binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/small_model.h"

namespace nf {
namespace {

using test::bind;
using test::model;
using test::regions_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Profile two_phases() {
  Profile profile;
  profile.name = "two";
  profile.regions = {{.name = "head", .names = {"fc.*"}},
                     {.name = "norm", .module_types = {"*Norm*"}},
                     {.name = "rest", .error_budget = 0.5}};
  profile.phases = {
      {.from_step = 0, .routes = {{"head", "fp32"}, {"norm", "fp32"}, {"rest", "waterfill:5"}}},
      {.from_step = 100, .routes = {{"head", "bf16"}, {"norm", "fp32"}, {"rest", "g_binary"}}}};
  return profile;
}

std::string error_of(Profile profile, std::vector<ModelParameter> parameters = model()) {
  const Expected<Binding> binding = Binding::make(std::move(profile), std::move(parameters));
  EXPECT_FALSE(binding);
  EXPECT_EQ(binding.status().code(), ErrorCode::kBadConfig);
  return binding.status().message();
}

TEST(Binding, GivesEveryParameterTheFirstRegionThatMatches) {
  EXPECT_THAT(regions_of(bind(two_phases())),
              ElementsAre("rest", "rest", "norm", "norm", "rest", "rest", "head", "head"));
}

TEST(Binding, RequiresNameAndModuleTypeIfARegionHasBoth) {
  Profile profile = two_phases();
  profile.regions[0] = {.name = "head", .names = {"layer1.*"}, .module_types = {"Conv?d", "No"}};
  EXPECT_THAT(regions_of(bind(profile)),
              ElementsAre("rest", "head", "norm", "norm", "rest", "rest", "rest", "rest"));
}

TEST(Binding, ChangesRoutesAtThePhasesOfTheProfile) {
  const Binding binding = bind(two_phases());
  EXPECT_EQ(binding.phase_at(0), 0u);
  EXPECT_EQ(binding.phase_at(99), 0u);
  EXPECT_EQ(binding.phase_at(100), 1u);
  EXPECT_EQ(binding.phase_at(~std::uint64_t{0}), 1u);
  EXPECT_EQ(binding.route(0, 99), "fp32");
  EXPECT_EQ(binding.route(0, 100), "bf16");
  EXPECT_EQ(binding.route(2, 0), "waterfill:5");
  EXPECT_EQ(binding.route(2, 1000), "g_binary");
}

TEST(Binding, KeepsSmallParametersDense) {
  Profile profile = two_phases();
  profile.smallest_parameter = 2048;
  const Binding binding = bind(profile);
  EXPECT_TRUE(binding.is_small(2));
  EXPECT_FALSE(binding.is_small(5));
  EXPECT_FALSE(binding.is_small(0));
}

TEST(Binding, RejectsAProfileForAnotherModel) {
  Profile profile = two_phases();
  profile.regions[0].names = {"fcc.*"};
  EXPECT_EQ(error_of(profile),
            "profile 'two' was made for another model: region 'head' (fcc.*) matches none of the 8 "
            "parameters; did you mean 'fc.*'?");
  profile.regions[0].names = {"layer1.conv.wieght"};
  EXPECT_THAT(error_of(profile), HasSubstr("did you mean 'layer1.conv.weight'?"));
  profile.regions[0].names = {"*.baises"};
  EXPECT_THAT(error_of(profile), HasSubstr("did you mean '*.bias'?"));
  profile.regions[0].names = {"transformer.decoder.layers.*"};
  EXPECT_THAT(error_of(profile), HasSubstr("; they go from 'embed.weight' to 'fc.bias'"));
}

TEST(Binding, NamesTheModuleTypesIfTheyDoNotMatch) {
  Profile profile = two_phases();
  profile.regions[1].module_types = {"GroupNorm"};
  EXPECT_EQ(error_of(profile),
            "profile 'two' was made for another model: region 'norm' (module type GroupNorm) "
            "matches none of the 8 parameters; their module types are BatchNorm2d, Conv2d, "
            "Embedding, Linear");
}

TEST(Binding, RejectsARegionWithoutParameters) {
  Profile profile = two_phases();
  std::swap(profile.regions[0], profile.regions[2]);
  EXPECT_EQ(error_of(profile),
            "profile 'two': region 'norm' (module type *Norm*) matches no parameter: earlier "
            "regions match all 2 that it would; move it up or remove it");
}

TEST(Binding, AllowsAnEmptyLastRegion) {
  EXPECT_THAT(regions_of(bind(two_phases(), {{"fc.weight", "Linear", 10, 2},
                                             {"norm.weight", "LayerNorm", 10, 0}})),
              ElementsAre("head", "norm"));
}

TEST(Binding, RejectsAParameterWithoutRegion) {
  Profile profile = two_phases();
  profile.regions[2].names = {"layer?.*"};
  EXPECT_EQ(error_of(profile),
            "profile 'two' has no region for parameter 'embed.weight' of module type 'Embedding'; "
            "add one, or a last region without patterns that takes the rest");
}

TEST(Binding, RejectsInvalidParameters) {
  std::vector<ModelParameter> parameters = model();
  parameters.push_back(parameters.front());
  EXPECT_EQ(error_of(two_phases(), parameters), "two parameters are named 'embed.weight'");
  parameters = model();
  parameters[0].rows = 7;
  EXPECT_EQ(error_of(two_phases(), parameters),
            "parameter 'embed.weight': 51200 values do not make a matrix of 7 rows");
}

TEST(Binding, RejectsAProfileThatFailsItsCheck) {
  Profile profile = two_phases();
  profile.phases[1].routes.erase("norm");
  EXPECT_EQ(error_of(profile), "profile 'two': phases[1].routes has no route for region 'norm'");
  EXPECT_THAT(error_of(static_profile("waterfil:4")), HasSubstr("did you mean 'waterfill'?"));
  EXPECT_THAT(error_of(Profile()), HasSubstr("name is empty"));
}

TEST(Binding, DescribesEverySettingRegionAndParameter) {
  const std::string text = bind(two_phases()).describe();
  EXPECT_THAT(text, StartsWith("health.warm_up_steps 20\nhealth.norm_spike 10\n"));
  EXPECT_THAT(text, HasSubstr("reducer.most_workers 0\n"));
  EXPECT_THAT(text, HasSubstr("region norm: error budget 0.1, fp32 from step 0"));
  EXPECT_THAT(text, HasSubstr("smallest_parameter 1024\n"));
  EXPECT_THAT(text, HasSubstr("region rest: error budget 0.5, waterfill:5 from step 0, g_binary "
                              "from step 100\n"));
  EXPECT_THAT(text, HasSubstr("parameter fc.weight: 51200 values, 100 rows, region head, fp32 from "
                              "step 0, bf16 from step 100\n"));
  EXPECT_THAT(text, HasSubstr("parameter fc.bias: 100 values, 0 rows, region head, fp32: small\n"));
}

TEST(Binding, HashesOnlyWhatRanksMustShare) {
  const std::uint64_t hash = bind(two_phases()).hash();
  EXPECT_EQ(bind(two_phases()).hash(), hash);
  Profile profile = two_phases();
  profile.name = "other";
  profile.provenance = R"({"tool":"other"})";
  EXPECT_EQ(bind(profile).hash(), hash);

  std::vector<std::uint64_t> hashes = {hash};
  const auto add = [&](auto change) {
    Profile changed = two_phases();
    std::vector<ModelParameter> parameters = model();
    change(changed, parameters);
    hashes.push_back(bind(changed, parameters).hash());
  };
  add([](Profile& p, auto&) { p.health.loss_spike += 1e-9; });
  add([](Profile& p, auto&) { p.reducer.queue_lines = 1; });
  add([](Profile& p, auto&) { p.smallest_parameter = 1; });
  add([](Profile& p, auto&) { p.regions[2].error_budget = 0.51; });
  add([](Profile& p, auto&) { p.regions[0].names = {"fc.weight"}; });
  add([](Profile& p, auto&) { p.phases[1].from_step = 101; });
  add([](Profile& p, auto&) { p.phases[1].routes["rest"] = "g_ternary"; });
  add([](Profile& p, auto&) { p.phases.pop_back(); });
  add([](auto&, auto& parameters) { parameters[1].name = "layer1.conv2.weight"; });
  add([](auto&, auto& parameters) { parameters[1].count *= 2; });
  add([](auto&, auto& parameters) { parameters[1].rows = 32; });
  add([](auto&, auto& parameters) { std::swap(parameters[1], parameters[4]); });
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()), hashes.end());
}

}  // namespace
}  // namespace nf
