#include "runtime/admission_state.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace nf {
namespace {

using Json = nlohmann::ordered_json;

// The largest step or count. Limits of a profile reach 2^53; their sums must not overflow.
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 60;

constexpr std::array<std::pair<FallbackState, std::string_view>, 4> kFallbackStates = {{
    {FallbackState::kSteady, "steady"},
    {FallbackState::kCoolDown, "cool_down"},
    {FallbackState::kProbation, "probation"},
    {FallbackState::kLockedOut, "locked_out"},
}};

std::string_view to_string(FallbackState state) {
  for (const auto& [known, name] : kFallbackStates) {
    if (known == state) return name;
  }
  return "unknown";
}

Status bad(std::string_view why) {
  return {ErrorCode::kInvalidArgument, fmt::format("the state of admission {}", why)};
}

// Each reads a value and returns whether it has the right type.

bool take(const Json& json, std::uint64_t& value) {
  if (!json.is_number_unsigned()) return false;
  value = json.get<std::uint64_t>();
  return value <= kMaxCount;
}

bool take(const Json& json, bool& value) {
  if (!json.is_boolean()) return false;
  value = json.get<bool>();
  return true;
}

bool take(const Json& json, std::string& value) {
  if (!json.is_string()) return false;
  value = json.get<std::string>();
  return true;
}

bool take(const Json& json, Reason& value) {
  std::string name;
  if (!take(json, name)) return false;
  const std::optional<Reason> reason = find_reason(name);
  value = reason.value_or(value);
  return reason.has_value();
}

bool take(const Json& json, FallbackState& value) {
  std::string name;
  if (!take(json, name)) return false;
  for (const auto& [state, known] : kFallbackStates) {
    if (known != name) continue;
    value = state;
    return true;
  }
  return false;
}

bool take(const Json& json, std::vector<std::uint64_t>& values) {
  if (!json.is_array()) return false;
  for (const Json& item : json) {
    if (!take(item, values.emplace_back())) return false;
  }
  return true;
}

bool take(const Json& json, RunningMean& value) {
  if (!json.is_array() || json.size() != 3) return false;
  if (!take(json[0], value.count) || !json[1].is_number() || !json[2].is_number()) return false;
  value.mean = json[1].get<double>();
  value.variance = json[2].get<double>();
  return value.variance >= 0;
}

// Reads the keys of an object and stores the first key that failed.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  template <typename T>
  Fields& take(std::string_view key, T& value) {
    const auto found = object_.find(key);
    if (failed_.empty() && (found == object_.end() || !nf::take(*found, value))) failed_ = key;
    return *this;
  }
  // Empty if none failed.
  std::string_view failed() const { return failed_; }

 private:
  const Json& object_;
  std::string_view failed_;
};

std::string_view take_region(const Json& json, AdmissionState& state) {
  RegionState& region = state.regions.emplace_back();
  Decision& decision = state.decisions.emplace_back();
  return Fields(json)
      .take("stage", region.fallback_state)
      .take("is_useful", region.is_useful)
      .take("cause", region.cause)
      .take("is_fallback_new", region.is_fallback_new)
      .take("dense_until", region.dense_until)
      .take("probation_left", region.probation_left)
      .take("fallbacks", region.fallbacks)
      .take("is_low_bit", decision.is_low_bit)
      .take("reason", decision.reason)
      .take("route", state.routes.emplace_back())
      .take("norm", state.means.norms.emplace_back())
      .failed();
}

Json print_mean(const RunningMean& mean) { return {mean.count, mean.mean, mean.variance}; }

}  // namespace

std::string AdmissionState::print(std::span<const Region> names) const {
  Json list = Json::array();
  for (std::size_t r = 0; r < regions.size(); ++r) {
    const RegionState& region = regions[r];
    list.push_back({{"name", names[r].name},
                    {"stage", to_string(region.fallback_state)},
                    {"is_useful", region.is_useful},
                    {"cause", to_string(region.cause)},
                    {"is_fallback_new", region.is_fallback_new},
                    {"dense_until", region.dense_until},
                    {"probation_left", region.probation_left},
                    {"fallbacks", region.fallbacks},
                    {"is_low_bit", decisions[r].is_low_bit},
                    {"reason", to_string(decisions[r].reason)},
                    {"route", routes[r]},
                    {"norm", print_mean(means.norms[r])}});
  }
  const Json json{{"version", kVersion},
                  {"next_step", next_step},
                  {"epoch", epoch},
                  {"loss", print_mean(means.loss)},
                  {"regions", std::move(list)}};
  // Names are bytes from a profile; invalid UTF-8 must not throw.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Expected<AdmissionState> AdmissionState::parse(std::string_view text,
                                               std::span<const Region> names) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return bad("is not a JSON object");
  std::uint64_t version = 0;
  if (!Fields(json).take("version", version).failed().empty()) return bad("has no version");
  if (version != kVersion) {
    return bad(fmt::format("has version {}, this build reads version {}", version, kVersion));
  }
  const auto list = json.find("regions");
  if (list == json.end() || !list->is_array()) return bad("has no list of regions");
  if (list->size() != names.size()) {
    return bad(
        fmt::format("has {} regions, the profile {}; load it with the profile it was "
                    "saved with, or start without it",
                    list->size(), names.size()));
  }

  AdmissionState state;
  const std::string_view failed = Fields(json)
                                      .take("next_step", state.next_step)
                                      .take("epoch", state.epoch)
                                      .take("loss", state.means.loss)
                                      .failed();
  if (!failed.empty()) return bad(fmt::format("has no valid \"{}\"", failed));
  for (std::size_t r = 0; r < names.size(); ++r) {
    const Json& region = (*list)[r];
    std::string name;
    if (!region.is_object() || !Fields(region).take("name", name).failed().empty()) {
      return bad(fmt::format("has no name for region {}", r));
    }
    if (name != names[r].name) {
      return bad(
          fmt::format("has region '{}' instead of '{}'; load it with the profile "
                      "it was saved with, or start without it",
                      name, names[r].name));
    }
    if (const std::string_view wrong = take_region(region, state); !wrong.empty()) {
      return bad(fmt::format("has no valid \"{}\" for region '{}'", wrong, name));
    }
  }
  return state;
}

}  // namespace nf
