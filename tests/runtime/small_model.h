// A model to bind profiles to.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "neuron_fabric/binding.h"

namespace nf::test {

// Various parameters, in model order.
inline std::vector<ModelParameter> model() {
  return {{"embed.weight", "Embedding", 51200, 100},    {"layer1.conv.weight", "Conv2d", 36864, 64},
          {"layer1.norm.weight", "BatchNorm2d", 64, 0}, {"layer1.norm.bias", "BatchNorm2d", 64, 0},
          {"layer2.conv.weight", "Conv2d", 73728, 128}, {"layer2.conv.bias", "Conv2d", 2048, 0},
          {"fc.weight", "Linear", 51200, 100},          {"fc.bias", "Linear", 100, 0}};
}

inline Binding bind(Profile profile, std::vector<ModelParameter> parameters = model()) {
  Expected<Binding> binding = Binding::make(std::move(profile), std::move(parameters));
  EXPECT_TRUE(binding) << binding.status().message();
  return *binding;
}

// The regions of all parameters, by name.
inline std::vector<std::string> regions_of(const Binding& binding) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < binding.parameters().size(); ++i) {
    names.push_back(binding.profile().regions[binding.region_of(i)].name);
  }
  return names;
}

}  // namespace nf::test
