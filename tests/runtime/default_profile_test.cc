#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "neuron_fabric/binding.h"
#include "runtime/small_model.h"

namespace nf {
namespace {

using test::bind;
using test::model;
using test::regions_of;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(DefaultProfile, KeepsHeadsNormsBiasesAndEmbeddingsDense) {
  const Binding binding = bind(default_profile(model()));
  EXPECT_THAT(regions_of(binding), ElementsAre("embedding", "backbone", "norm", "norm", "backbone",
                                               "bias", "head", "bias"));
  for (std::uint32_t i = 0; i < binding.profile().regions.size(); ++i) {
    const bool is_backbone = binding.profile().regions[i].name == "backbone";
    EXPECT_EQ(binding.route(i, 0), is_backbone ? "waterfill:5" : "fp32");
  }
}

TEST(DefaultProfile, SendsTheRestAlongTheGivenRoute) {
  const Binding binding = bind(default_profile(model(), "g_ternary"));
  EXPECT_EQ(binding.route(binding.region_of(1), 0), "g_ternary");
}

TEST(DefaultProfile, KnowsTheBiasesOfAttentionAndRecurrentLayers) {
  const std::vector<ModelParameter> parameters = {{"attention.in_proj_weight", "M", 768, 3},
                                                  {"attention.in_proj_bias", "M", 768, 0},
                                                  {"rnn.weight_ih_l0", "LSTM", 768, 3},
                                                  {"rnn.bias_ih_l0", "LSTM", 768, 0},
                                                  {"fc.weight", "Linear", 768, 3}};
  EXPECT_THAT(regions_of(bind(default_profile(parameters), parameters)),
              ElementsAre("backbone", "bias", "backbone", "bias", "head"));
}

TEST(DefaultProfile, HasNoHeadInAModelOfOneModule) {
  const std::vector<std::vector<ModelParameter>> models = {
      {{"weight", "Linear", 10, 2}, {"bias", "Linear", 2, 0}},
      {{"0.weight", "Linear", 10, 2}, {"0.bias", "Linear", 2, 0}},
      {{"net.0.weight", "Linear", 10, 2}, {"net.1.weight", "LayerNorm", 2, 0}},
  };
  for (const std::vector<ModelParameter>& parameters : models) {
    const Profile profile = default_profile(parameters);
    EXPECT_EQ(profile.regions.back().name, "backbone");
    for (const Region& region : profile.regions) EXPECT_NE(region.name, "head");
    EXPECT_EQ(regions_of(bind(profile, parameters)).front(), "backbone");
  }
}

TEST(DefaultProfile, HasNoHeadWhereTheLastMatrixIsAnEmbedding) {
  const std::vector<ModelParameter> parameters = {{"h.0.weight", "Linear", 10, 2},
                                                  {"wte.weight", "Embedding", 10, 2}};
  EXPECT_THAT(regions_of(bind(default_profile(parameters), parameters)),
              ElementsAre("backbone", "embedding"));
}

TEST(DefaultProfile, BindsToModelsWithoutMatricesAndWithoutAnything) {
  const std::vector<ModelParameter> vectors = {{"a.weight", "LayerNorm", 10, 0},
                                               {"b.bias", "Mine", 10, 0}};
  EXPECT_THAT(regions_of(bind(default_profile(vectors), vectors)), ElementsAre("norm", "bias"));
  EXPECT_THAT(regions_of(bind(default_profile({}), {})), IsEmpty());
}

TEST(DefaultProfile, ReadsBackFromItsText) {
  const Profile profile = default_profile(model());
  const Expected<Profile> again = Profile::parse(profile.print());
  ASSERT_TRUE(again) << again.status().message();
  EXPECT_EQ(*again, profile);
}

TEST(StaticProfile, PutsEverythingOnOneRouteFromTheFirstStep) {
  const Binding binding = bind(static_profile("waterfill:4"));
  EXPECT_EQ(binding.profile().health.warm_up_steps, 0u);
  for (std::size_t i = 0; i < model().size(); ++i) {
    EXPECT_EQ(binding.route(binding.region_of(i), 0), "waterfill:4");
    EXPECT_FALSE(binding.is_small(i));
  }
}

}  // namespace
}  // namespace nf
