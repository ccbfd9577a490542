// The names and shapes of a model's parameters, from a JSON file:
//   {"name": "tiny", "parameters": [
//      {"name": "fc.weight", "shape": [10, 64], "module_type": "Linear"}, ...]}
// If the model has no name, the path of the file is its name. A parameter may have a "count"
// instead of a "shape". Regions of a profile can match the "module_type".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neuron_fabric/binding.h"
#include "neuron_fabric/status.h"

namespace nf::cli {

struct ParameterShape {
  std::string name;
  std::uint64_t count = 0;       // values
  std::uint64_t rows = 0;        // 0 if the parameter has fewer than two dimensions
  std::uint64_t dimensions = 0;  // also 0 if the file has a count
  std::string module_type = {};  // empty if the file has none
};

struct ModelShapes {
  std::string name;
  std::vector<ParameterShape> parameters;

  std::uint64_t count() const;
  // The parameters in the form that Binding::make() takes.
  std::vector<ModelParameter> bindable() const;
};

// Fails with the name of the file and the position if it cannot be read, is not JSON, has an
// unknown key, has two parameters of the same name or more than kMaxModelValues values.
Expected<ModelShapes> read_shapes(const std::string& path);

// If no parameter has a module type, sets "Norm" and "Embedding" where shapes and names suggest
// it, so that the default profile finds its regions.
ModelShapes with_guessed_types(ModelShapes model);

inline constexpr std::uint64_t kMaxModelValues = std::uint64_t{1} << 40;

}  // namespace nf::cli
