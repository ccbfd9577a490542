// The parameters of a model, by name and shape, from a JSON file:
//   {"name": "tiny", "parameters": [
//      {"name": "fc.weight", "shape": [10, 64], "module_type": "Linear"}, ...]}
// A model without a name has that of its file; a parameter may have a "count" instead of a "shape".
// The "module_type" is what regions of a profile may ask for.
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
  std::uint64_t rows = 0;        // of what has two dimensions or more
  std::uint64_t dimensions = 0;  // 0 also if the file has a count
  std::string module_type = {};  // empty if the file has none
};

struct ModelShapes {
  std::string name;
  std::vector<ParameterShape> parameters;

  std::uint64_t count() const;
  // As a profile is bound to them.
  std::vector<ModelParameter> bindable() const;
};

// Fails, naming the file and the place, where it cannot be read, is no JSON, has an unknown key, or
// describes parameters that cannot be: two of one name, or more values than kMostModelValues.
Expected<ModelShapes> read_shapes(const std::string& path);

// If no parameter has a module type: with "Norm" and "Embedding" for those whose shapes and names
// suggest it, so that the default profile finds its regions.
ModelShapes with_guessed_types(ModelShapes model);

inline constexpr std::uint64_t kMostModelValues = std::uint64_t{1} << 40;

}  // namespace nf::cli
