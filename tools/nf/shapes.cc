#include "nf/shapes.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "neuron_fabric/codec_spec.h"
#include "nf/table.h"

namespace nf::cli {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostFileBytes = std::size_t{64} << 20;

Status bad(std::string message) { return {ErrorCode::kBadConfig, std::move(message)}; }

Expected<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file) {
    // One more than allowed, to see that there is more.
    text.resize(kMostFileBytes + 1);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof() && text.size() <= kMostFileBytes) {
    return bad(fmt::format("cannot read it: {}", std::strerror(errno)));
  }
  if (text.size() > kMostFileBytes) return bad("larger than 64 MiB");
  return text;
}

Status check_keys(const Json& object, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string_view hint = nearest(key, {known.begin(), known.size()});
    return bad(fmt::format("unknown key '{}'{}", printable(key),
                           hint.empty() ? "" : fmt::format("; did you mean '{}'?", hint)));
  }
  return {};
}

// The product of the dimensions; nothing where one is no size or the product is too large.
std::optional<std::uint64_t> product(const Json& shape) {
  std::uint64_t count = 1;
  for (const Json& size : shape) {
    if (!size.is_number_unsigned()) return {};
    const auto factor = size.get<std::uint64_t>();
    if (factor > kMostModelValues) return {};
    if (factor != 0 && count > kMostModelValues / factor) return {};
    count *= factor;
  }
  return count;
}

Expected<ParameterShape> parse_parameter(const Json& json) {
  if (!json.is_object()) return bad("is not an object");
  NF_RETURN_IF_ERROR(check_keys(json, {"name", "shape", "count"}));
  const auto name = json.find("name");
  const auto shape = json.find("shape");
  const auto count = json.find("count");
  if (name == json.end() || !name->is_string()) return bad("has no \"name\" that is a string");
  if (shape != json.end() && count != json.end()) return bad("has a \"shape\" and a \"count\"");
  if (count != json.end()) {
    const std::optional<std::uint64_t> values = product(Json::array({*count}));
    if (!values) return bad("has a \"count\" that is not a size up to 2^40");
    return ParameterShape{.name = name->get<std::string>(), .count = *values};
  }
  if (shape == json.end() || !shape->is_array()) return bad("has no \"shape\" that is an array");
  const std::optional<std::uint64_t> values = product(*shape);
  if (!values) return bad("has a \"shape\" that is not a list of sizes with a product up to 2^40");
  return ParameterShape{.name = name->get<std::string>(), .count = *values};
}

Expected<ModelShapes> parse(const std::string& text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const std::string_view what = error.what();
    return bad(printable(std::string(what.substr(what.find("] ") + 2))));
  }
  if (!json.is_object()) return bad("the file holds no JSON object");
  NF_RETURN_IF_ERROR(check_keys(json, {"name", "parameters"}));
  const auto name = json.find("name");
  const auto parameters = json.find("parameters");
  if (name != json.end() && !name->is_string()) return bad("its \"name\" is no string");
  if (parameters == json.end() || !parameters->is_array()) {
    return bad("there is no \"parameters\" that is an array");
  }
  ModelShapes model;
  if (name != json.end()) model.name = name->get<std::string>();
  std::set<std::string> names;
  for (std::size_t i = 0; i < parameters->size(); ++i) {
    Expected<ParameterShape> parameter = parse_parameter((*parameters)[i]);
    if (!parameter) return bad(fmt::format("parameters[{}] {}", i, parameter.status().message()));
    if (!names.insert(parameter->name).second) {
      return bad(fmt::format("two parameters are named '{}'", printable(parameter->name)));
    }
    model.parameters.push_back(std::move(*parameter));
    if (model.count() > kMostModelValues) return bad("more than 2^40 values in all");
  }
  return model;
}

}  // namespace

std::uint64_t ModelShapes::count() const {
  std::uint64_t sum = 0;
  for (const ParameterShape& parameter : parameters) sum += parameter.count;
  return sum;
}

Expected<ModelShapes> read_shapes(const std::string& path) {
  const Expected<std::string> text = read_file(path);
  if (!text) return bad(fmt::format("{}: {}", path, text.status().message()));
  Expected<ModelShapes> model = parse(*text);
  if (!model) return bad(fmt::format("{}: {}", path, model.status().message()));
  if (model->name.empty()) model->name = path;
  return model;
}

}  // namespace nf::cli
