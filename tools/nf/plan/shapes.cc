#include "nf/plan/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>

#include "runtime/glob.h"
#include "runtime/json_reader.h"
#include "runtime/text_file.h"

namespace nf::cli {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

Status bad(std::string message) { return {ErrorCode::kBadConfig, std::move(message)}; }

// The product of the dimensions; nullopt if one is not a size or the product is too large.
std::optional<std::uint64_t> product(const Json& shape) {
  std::uint64_t count = 1;
  for (const Json& size : shape) {
    if (!size.is_number_unsigned()) return {};
    const auto factor = size.get<std::uint64_t>();
    if (factor > kMaxModelValues) return {};
    if (factor != 0 && count > kMaxModelValues / factor) return {};
    count *= factor;
  }
  return count;
}

Expected<ParameterShape> parse_parameter(const Json& json, const std::string& path) {
  static constexpr std::array<std::string_view, 4> kKeys = {"name", "shape", "count",
                                                            "module_type"};
  const auto fail = [&](std::string_view why) { return bad(fmt::format("{} {}", path, why)); };
  const Expected<JsonObject> object = JsonObject::open(json, path, kKeys);
  if (!object) return object.status();
  const Json* shape = object->find("shape");
  const Json* count = object->find("count");
  if (object->find("name") == nullptr) return fail("has no \"name\"");
  ParameterShape parameter;
  NF_RETURN_IF_ERROR(object->read("name", parameter.name));
  NF_RETURN_IF_ERROR(object->read("module_type", parameter.module_type));
  if (shape != nullptr && count != nullptr) return fail("has a \"shape\" and a \"count\"");
  std::optional<std::uint64_t> values;
  if (count != nullptr) {
    values = product(Json::array({*count}));
    if (!values) return fail("has a \"count\" that is not a size up to 2^40");
  } else {
    if (shape == nullptr || !shape->is_array()) return fail("needs a \"shape\", which is an array");
    values = product(*shape);
    if (!values) {
      return fail("has a \"shape\" that is not a list of sizes with a product up to 2^40");
    }
    parameter.dimensions = shape->size();
    if (shape->size() >= 2 && *values > 0) parameter.rows = shape->front().get<std::uint64_t>();
  }
  parameter.count = *values;
  return parameter;
}

// The component before the last in lower case: "wte" of "transformer.wte.weight".
std::string owner(std::string_view name) {
  const std::size_t end = name.rfind('.');
  if (end == std::string_view::npos) return "";
  name = name.substr(0, end);
  std::string last(name.substr(name.rfind('.') + 1));
  for (char& c : last) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return last;
}

// A module whose weight is a vector is a norm; an embedding is recognised by its name.
std::string guess_module_type(std::string_view name, const std::set<std::string>& norms) {
  static constexpr std::array<std::string_view, 4> kEmbeddings = {"*embed*", "*_emb", "wte", "wpe"};
  if (norms.contains(std::string(name.substr(0, name.rfind('.'))))) return "Norm";
  const std::string module = owner(name);
  const bool is_embedding =
      std::any_of(kEmbeddings.begin(), kEmbeddings.end(),
                  [&](std::string_view pattern) { return matches(pattern, module); });
  return is_embedding ? "Embedding" : "";
}

Expected<ModelShapes> parse(std::string_view text) {
  static constexpr std::array<std::string_view, 2> kKeys = {"name", "parameters"};
  const Expected<Json> json = parse_json(text);
  if (!json) return json.status();
  const Expected<JsonObject> object = JsonObject::open(*json, "", kKeys);
  if (!object) return object.status();
  ModelShapes model;
  NF_RETURN_IF_ERROR(object->read("name", model.name));
  const Json* parameters = object->find("parameters");
  if (parameters == nullptr || !parameters->is_array()) {
    return bad("\"parameters\" is missing or not an array");
  }
  std::set<std::string> names;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < parameters->size(); ++i) {
    Expected<ParameterShape> parameter =
        parse_parameter((*parameters)[i], element_path("parameters", i));
    if (!parameter) return parameter.status();
    if (!names.insert(parameter->name).second) {
      return bad(fmt::format("two parameters are named {}", in_quotes(parameter->name)));
    }
    sum += parameter->count;
    if (sum > kMaxModelValues) return bad("the model has more than 2^40 values");
    model.parameters.push_back(std::move(*parameter));
  }
  return model;
}

}  // namespace

std::uint64_t ModelShapes::count() const {
  std::uint64_t sum = 0;
  for (const ParameterShape& parameter : parameters) sum += parameter.count;
  return sum;
}

std::vector<ModelParameter> ModelShapes::bindable() const {
  std::vector<ModelParameter> all;
  for (const ParameterShape& parameter : parameters) {
    all.push_back({.name = parameter.name,
                   .module_type = parameter.module_type,
                   .count = parameter.count,
                   .rows = parameter.rows});
  }
  return all;
}

ModelShapes with_guessed_types(ModelShapes model) {
  constexpr std::string_view kWeight = ".weight";
  std::set<std::string> norms;
  for (const ParameterShape& parameter : model.parameters) {
    if (!parameter.module_type.empty()) return model;
    if (parameter.dimensions == 1 && parameter.name.ends_with(kWeight)) {
      norms.insert(parameter.name.substr(0, parameter.name.size() - kWeight.size()));
    }
  }
  for (ParameterShape& parameter : model.parameters) {
    parameter.module_type = guess_module_type(parameter.name, norms);
  }
  return model;
}

Expected<ModelShapes> read_shapes(const std::string& path) {
  const Expected<std::string> text = read_text_file(path, kMaxFileBytes);
  if (!text) return text.status();
  Expected<ModelShapes> model = parse(*text);
  if (!model) return bad(fmt::format("{}: {}", path, model.status().message()));
  if (model->name.empty()) model->name = path;
  return model;
}

}  // namespace nf::cli
