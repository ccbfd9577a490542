#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
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

TEST(DefaultProfile, KeepsNormsAndBiasesDense) {
  const Binding binding = bind(default_profile(model()));
  EXPECT_THAT(regions_of(binding), ElementsAre("embedding", "backbone", "norm", "norm", "backbone",
                                               "bias", "head", "bias"));
  for (std::uint32_t i = 0; i < binding.profile().regions.size(); ++i) {
    const std::string& name = binding.profile().regions[i].name;
    const bool is_dense = name == "norm" || name == "bias";
    EXPECT_EQ(binding.route(i, 0), is_dense ? "fp32" : "waterfill:5") << name;
  }
  EXPECT_EQ(binding.profile().health.warm_up_steps, 3u);
}

TEST(DefaultProfile, UsesTheGivenRouteForTheRest) {
  const Binding binding = bind(default_profile(model(), "g_ternary"));
  EXPECT_EQ(binding.route(binding.region_of(1), 0), "g_ternary");
}

TEST(DefaultProfile, MatchesTheBiasesOfAttentionAndRecurrentLayers) {
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

TEST(DefaultProfile, HasNoHeadIfTheLastMatrixIsAnEmbedding) {
  const std::vector<ModelParameter> parameters = {{"h.0.weight", "Linear", 10, 2},
                                                  {"wte.weight", "Embedding", 10, 2}};
  EXPECT_THAT(regions_of(bind(default_profile(parameters), parameters)),
              ElementsAre("backbone", "embedding"));
}

// A model by the names and types of its parameters; "@" stands for every index of `blocks`.
struct Architecture {
  const char* name;
  std::vector<std::pair<std::string, std::string>> parameters;
  std::vector<std::string> head;  // the parameters in it
};

std::vector<ModelParameter> parameters_of(const Architecture& architecture) {
  constexpr int kBlocks = 12;
  std::vector<ModelParameter> all;
  const auto add = [&](const std::string& name, const std::string& type) {
    const bool is_vector = name.ends_with("bias") || type.find("Norm") != std::string::npos;
    all.push_back({name, type, 4096, is_vector ? 0u : 64u});
  };
  const auto& listed = architecture.parameters;
  const auto is_of_block = [](const auto& one) { return one.first.find('@') != std::string::npos; };
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (!is_of_block(listed[i])) {
      add(listed[i].first, listed[i].second);
      continue;
    }
    std::size_t end = i;
    while (end < listed.size() && is_of_block(listed[end])) ++end;
    for (int block = 0; block < kBlocks; ++block) {
      for (std::size_t j = i; j < end; ++j) {
        std::string name = listed[j].first;
        add(name.replace(name.find('@'), 1, std::to_string(block)), listed[j].second);
      }
    }
    i = end - 1;
  }
  return all;
}

std::vector<Architecture> architectures() {
  const std::vector<std::pair<std::string, std::string>> llama = {
      {"model.embed_tokens.weight", "Embedding"},
      {"model.layers.@.self_attn.q_proj.weight", "Linear"},
      {"model.layers.@.self_attn.o_proj.weight", "Linear"},
      {"model.layers.@.mlp.down_proj.weight", "Linear"},
      {"model.layers.@.input_layernorm.weight", "LlamaRMSNorm"},
      {"model.norm.weight", "LlamaRMSNorm"}};
  std::vector<std::pair<std::string, std::string>> untied = llama;
  untied.emplace_back("lm_head.weight", "Linear");
  const std::vector<std::pair<std::string, std::string>> lora = {
      {"base_model.model.model.layers.@.self_attn.q_proj.lora_A.default.weight", "Linear"},
      {"base_model.model.model.layers.@.self_attn.q_proj.lora_B.default.weight", "Linear"},
      {"base_model.model.model.layers.@.self_attn.v_proj.lora_A.default.weight", "Linear"},
      {"base_model.model.model.layers.@.self_attn.v_proj.lora_B.default.weight", "Linear"}};
  std::vector<std::pair<std::string, std::string>> lora_on_head = lora;
  lora_on_head.emplace_back("base_model.model.lm_head.lora_A.default.weight", "Linear");
  lora_on_head.emplace_back("base_model.model.lm_head.lora_B.default.weight", "Linear");
  std::vector<std::pair<std::string, std::string>> lora_and_head = lora;
  lora_and_head.emplace_back("base_model.model.score.modules_to_save.default.weight", "Linear");
  return {
      {"llama, tied", llama, {}},
      {"llama, untied", untied, {"lm_head.weight"}},
      {"gpt2",
       {{"transformer.wte.weight", "Embedding"},
        {"transformer.wpe.weight", "Embedding"},
        {"transformer.h.@.ln_1.weight", "LayerNorm"},
        {"transformer.h.@.attn.c_attn.weight", "Conv1D"},
        {"transformer.h.@.mlp.c_proj.weight", "Conv1D"},
        {"transformer.h.@.mlp.c_proj.bias", "Conv1D"},
        {"transformer.ln_f.weight", "LayerNorm"}},
       {}},
      {"resnet18",
       {{"conv1.weight", "Conv2d"},
        {"bn1.weight", "BatchNorm2d"},
        {"layer4.0.conv1.weight", "Conv2d"},
        {"layer4.0.downsample.0.weight", "Conv2d"},
        {"layer4.1.conv1.weight", "Conv2d"},
        {"fc.weight", "Linear"},
        {"fc.bias", "Linear"}},
       {"fc.weight"}},
      {"resnet18 without fc",
       {{"conv1.weight", "Conv2d"},
        {"layer4.0.conv1.weight", "Conv2d"},
        {"layer4.1.conv1.weight", "Conv2d"}},
       {}},
      {"vgg",
       {{"features.0.weight", "Conv2d"},
        {"features.2.weight", "Conv2d"},
        {"classifier.0.weight", "Linear"},
        {"classifier.3.weight", "Linear"},
        {"classifier.6.weight", "Linear"},
        {"classifier.6.bias", "Linear"}},
       {"classifier.6.weight"}},
      {"vit",
       {{"cls_token", "VisionTransformer"},
        {"pos_embed", "VisionTransformer"},
        {"patch_embed.proj.weight", "Conv2d"},
        {"blocks.@.attn.qkv.weight", "Linear"},
        {"blocks.@.mlp.fc2.weight", "Linear"},
        {"norm.weight", "LayerNorm"},
        {"head.weight", "Linear"}},
       {"head.weight"}},
      {"vit without head, indices behind an underscore",
       {{"conv_proj.weight", "Conv2d"},
        {"encoder.layers.encoder_layer_@.mlp.0.weight", "Linear"},
        {"encoder.layers.encoder_layer_@.mlp.3.weight", "Linear"},
        {"encoder.ln.weight", "LayerNorm"}},
       {}},
      {"bert classifier",
       {{"bert.embeddings.word_embeddings.weight", "Embedding"},
        {"bert.encoder.layer.@.attention.self.query.weight", "Linear"},
        {"bert.encoder.layer.@.output.dense.weight", "Linear"},
        {"bert.pooler.dense.weight", "Linear"},
        {"classifier.weight", "Linear"},
        {"classifier.bias", "Linear"}},
       {"classifier.weight"}},
      {"lora", lora, {}},
      {"lora on the output layer", lora_on_head, {}},
      {"lora beside an output layer that trains",
       lora_and_head,
       {"base_model.model.score.modules_to_save.default.weight"}},
      {"sequential",
       {{"0.weight", "Linear"}, {"2.weight", "Linear"}, {"4.weight", "Linear"}},
       {"4.weight"}},
      {"sequential of sequentials",
       {{"0.0.weight", "Linear"},
        {"0.2.weight", "Linear"},
        {"1.0.weight", "Linear"},
        {"1.2.weight", "Linear"}},
       {"1.2.weight"}},
      {"numbered layers",
       {{"fc1.weight", "Linear"}, {"fc2.weight", "Linear"}, {"fc3.weight", "Linear"}},
       {"fc3.weight"}},
      {"one linear layer", {{"weight", "Linear"}, {"bias", "Linear"}}, {}},
      {"lstm classifier",
       {{"embed.weight", "Embedding"},
        {"lstm.weight_ih_l0", "LSTM"},
        {"lstm.weight_hh_l0", "LSTM"},
        {"fc.weight", "Linear"}},
       {"fc.weight"}},
      {"lstm without classifier",
       {{"conv.weight", "Conv1d"}, {"lstm.weight_ih_l0", "LSTM"}, {"lstm.weight_hh_l0", "LSTM"}},
       {}},
  };
}

TEST(DefaultProfile, FindsTheHeadOfKnownModels) {
  for (const Architecture& architecture : architectures()) {
    const std::vector<ModelParameter> parameters = parameters_of(architecture);
    const std::vector<std::string> regions =
        regions_of(bind(default_profile(parameters), parameters));
    std::vector<std::string> head;
    for (std::size_t i = 0; i < regions.size(); ++i) {
      if (regions[i] == "head") head.push_back(parameters[i].name);
    }
    EXPECT_EQ(head, architecture.head) << architecture.name;
  }
}

TEST(DefaultProfile, BindsToModelsWithoutMatricesAndWithoutParameters) {
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
