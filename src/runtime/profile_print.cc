#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "neuron_fabric/profile.h"
#include "runtime/json_reader.h"
#include "runtime/profile_fields.h"

namespace nf {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kColumns = 100;

std::string scalar(const OrderedJson& json) {
  // Never throws: invalid UTF-8 is replaced.
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

// Calls part(prefix, element) for each element of an object or array.
template <typename Part>
void for_each_part(const OrderedJson& json, Part part) {
  for (const auto& [key, value] : json.items()) {
    part(json.is_object() ? scalar(key) + ": " : "", value);
  }
}

std::string on_one_line(const OrderedJson& json) {
  if (!json.is_structured()) return scalar(json);
  std::string text;
  for_each_part(json, [&](const std::string& front, const OrderedJson& value) {
    text += (text.empty() ? "" : ", ") + front + on_one_line(value);
  });
  return json.is_object() ? '{' + text + '}' : '[' + text + ']';
}

// On one line if it fits. The prefix uses `used` columns.
std::string laid_out(const OrderedJson& json, std::size_t indent, std::size_t used) {
  std::string line = on_one_line(json);
  if (!json.is_structured() || json.empty() || used + line.size() < kColumns) return line;
  const std::string inner(indent + 2, ' ');
  std::string text;
  for_each_part(json, [&](const std::string& front, const OrderedJson& value) {
    text += (text.empty() ? "\n" : ",\n") + inner + front +
            laid_out(value, indent + 2, inner.size() + front.size());
  });
  text += '\n' + std::string(indent, ' ');
  return json.is_object() ? '{' + text + '}' : '[' + text + ']';
}

// Prints 10 instead of 10.0.
template <typename Number>
OrderedJson number_json(Number number) {
  if constexpr (std::is_floating_point_v<Number>) {
    constexpr double kMaxWhole = 9007199254740992;  // 2^53
    if (std::abs(number) <= kMaxWhole && number == std::floor(number)) {
      return static_cast<std::int64_t>(number);
    }
  }
  return number;
}

OrderedJson region_json(const Region& region) {
  OrderedJson json{{"name", region.name}};
  if (!region.names.empty()) json["names"] = region.names;
  if (!region.module_types.empty()) json["module_types"] = region.module_types;
  if (region.error_budget) json["error_budget"] = number_json(*region.error_budget);
  return json;
}

// In the order of the regions.
OrderedJson routes_json(const std::vector<Region>& regions, const TrainingPhase& phase) {
  OrderedJson json = OrderedJson::object();
  for (const Region& region : regions) {
    const auto route = phase.routes.find(region.name);
    if (route != phase.routes.end()) json[region.name] = route->second;
  }
  return json;
}

}  // namespace

std::string Profile::print() const {
  OrderedJson json{{"format", kFormat}, {"version", kVersion}, {"name", name}};
  json["regions"] = OrderedJson::array();
  for (const Region& region : regions) json["regions"].push_back(region_json(region));
  json["phases"] = OrderedJson::array();
  for (const TrainingPhase& phase : phases) {
    json["phases"].push_back(
        {{"from_step", phase.from_step}, {"routes", routes_json(regions, phase)}});
  }
  const auto put_into = [&json](std::string_view part) {
    return [&of = json[std::string(part)]](const Setting& setting, auto value) {
      of[std::string(setting.key)] = number_json(value);
    };
  };
  visit_health(health, put_into("health"));
  visit_reducer(reducer, put_into("reducer"));
  json["smallest_parameter"] = smallest_parameter;
  const Expected<Json> kept = parse_json(provenance);
  json["provenance"] = kept && kept->is_object() ? OrderedJson(*kept) : OrderedJson::object();
  return laid_out(json, 0, 0) + '\n';
}

}  // namespace nf
