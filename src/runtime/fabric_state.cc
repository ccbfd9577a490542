#include "runtime/fabric_state.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <span>
#include <utility>

#include "runtime/json_reader.h"

namespace nf {
namespace {

constexpr int kVersion = 1;
// Steps that are summed and not yet observed. The current implementation has at most two.
constexpr std::size_t kMaxToObserve = 64;

// Numbers round-trip: nlohmann-json prints all digits of a double, and NaN as null, which is read
// back as NaN.
Json to_json(const StepStatistics& statistics) {
  Json regions = Json::array();
  for (const RegionStatistics& region : statistics.regions) {
    regions.push_back(
        {region.energy, region.non_finite, region.error_energy, region.sample_energy});
  }
  return {{"step", statistics.step},       {"loss", statistics.loss},
          {"losses", statistics.losses},   {"lines", statistics.lines},
          {"seconds", statistics.seconds}, {"capacity_breaches", statistics.capacity_breaches},
          {"regions", std::move(regions)}};
}

Json to_json(const Pending& pending) {
  return {{"loss", pending.loss},
          {"losses", pending.losses},
          {"capacity_breach", pending.capacity_breach}};
}

Status bad(std::string_view why) {
  return {ErrorCode::kInvalidArgument, fmt::format("not a Fabric state: {}", why)};
}

// A measured value: a number, or null for NaN.
Status read_value(const JsonObject& object, std::string_view key, double& out) {
  const Json* value = object.find(key);
  if (value == nullptr || !value->is_null()) return object.read(key, out);
  out = std::numeric_limits<double>::quiet_NaN();
  return {};
}

// Requires all of `keys` and no others.
Expected<JsonObject> open_whole(const Json& value, std::string path,
                                std::span<const std::string_view> keys) {
  Expected<JsonObject> object = JsonObject::open(value, std::move(path), keys);
  if (!object) return object;
  if (Status status = object->require(keys); !status.ok()) return status;
  return object;
}

// The numbers of a region are an array. They are read as an object so that errors name them.
Status read_region(const Json& value, const std::string& path, RegionStatistics& out) {
  static constexpr std::array<std::string_view, 4> kNames = {"energy", "non_finite", "error_energy",
                                                             "sample_energy"};
  if (!value.is_array() || value.size() != kNames.size()) {
    return {ErrorCode::kBadConfig, fmt::format("{} is not a list of 4 numbers", path)};
  }
  Json named = Json::object();
  for (std::size_t i = 0; i < kNames.size(); ++i) named[std::string(kNames[i])] = value[i];
  const Expected<JsonObject> object = open_whole(named, path, kNames);
  if (!object) return object.status();
  NF_RETURN_IF_ERROR(read_value(*object, "energy", out.energy));
  NF_RETURN_IF_ERROR(object->read("non_finite", out.non_finite));
  NF_RETURN_IF_ERROR(read_value(*object, "error_energy", out.error_energy));
  return read_value(*object, "sample_energy", out.sample_energy);
}

// The following return kBadConfig if the text is not a state, kInvalidArgument if the state belongs
// to another job.
Status read_statistics(const Json& value, const std::string& path, std::size_t regions,
                       StepStatistics& out) {
  static constexpr std::array<std::string_view, 7> kKeys = {
      "step", "loss", "losses", "lines", "seconds", "capacity_breaches", "regions"};
  const Expected<JsonObject> object = open_whole(value, path, kKeys);
  if (!object) return object.status();
  NF_RETURN_IF_ERROR(object->read("step", out.step));
  NF_RETURN_IF_ERROR(read_value(*object, "loss", out.loss));
  NF_RETURN_IF_ERROR(object->read("losses", out.losses));
  NF_RETURN_IF_ERROR(read_value(*object, "lines", out.lines));
  NF_RETURN_IF_ERROR(read_value(*object, "seconds", out.seconds));
  NF_RETURN_IF_ERROR(object->read("capacity_breaches", out.capacity_breaches));
  const Json& list = *object->find("regions");
  if (!list.is_array()) return {ErrorCode::kBadConfig, path + ".regions is not a list"};
  if (list.size() != regions) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("the state has {} regions, this job has {}", list.size(), regions)};
  }
  out.regions.resize(regions);
  for (std::size_t i = 0; i < regions; ++i) {
    NF_RETURN_IF_ERROR(
        read_region(list[i], element_path(object->path_of("regions"), i), out.regions[i]));
  }
  return {};
}

Status read_pending(const Json& value, Pending& out) {
  static constexpr std::array<std::string_view, 3> kKeys = {"loss", "losses", "capacity_breach"};
  const Expected<JsonObject> object = open_whole(value, "pending", kKeys);
  if (!object) return object.status();
  NF_RETURN_IF_ERROR(read_value(*object, "loss", out.loss));
  NF_RETURN_IF_ERROR(object->read("losses", out.losses));
  return object->read("capacity_breach", out.capacity_breach);
}

Status read_to_observe(const Json& list, std::size_t regions, FabricState& state) {
  if (!list.is_array() || list.size() > kMaxToObserve) {
    return {ErrorCode::kBadConfig,
            fmt::format("to_observe is not a list of at most {} steps", kMaxToObserve)};
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = element_path("to_observe", i);
    StepStatistics& statistics = state.to_observe.emplace_back();
    NF_RETURN_IF_ERROR(read_statistics(list[i], path, regions, statistics));
    if (statistics.step >= state.step) {
      return {ErrorCode::kBadConfig, fmt::format("{}.step is {}, but the next step is {}", path,
                                                 statistics.step, state.step)};
    }
  }
  return {};
}

Status read_state(const Json& value, std::size_t regions, FabricState& state) {
  static constexpr std::array<std::string_view, 9> kKeys = {
      "version",    "step",    "admission", "dense_correction", "low_bit_correction",
      "to_observe", "pending", "ranks",     "topology"};
  constexpr std::size_t kRequired = 6;
  const Expected<JsonObject> object = JsonObject::open(value, "", kKeys);
  if (!object) return object.status();
  // Older states lack the last keys.
  NF_RETURN_IF_ERROR(object->require(std::span(kKeys).first(kRequired)));
  NF_RETURN_IF_ERROR(object->read("step", state.step));
  NF_RETURN_IF_ERROR(object->read("admission", state.admission));
  NF_RETURN_IF_ERROR(object->read("dense_correction", state.dense_correction));
  NF_RETURN_IF_ERROR(object->read("low_bit_correction", state.low_bit_correction));
  NF_RETURN_IF_ERROR(read_to_observe(*object->find("to_observe"), regions, state));
  NF_RETURN_IF_ERROR(object->read("ranks", state.ranks));
  std::string name;
  NF_RETURN_IF_ERROR(object->read("topology", name));
  if (!name.empty()) {
    const Expected<Topology> topology = find_topology(name);
    if (!topology) return topology.status();
    state.topology = *topology;
  }
  const Json* pending = object->find("pending");
  return pending == nullptr ? Status() : read_pending(*pending, state.pending);
}

}  // namespace

std::string print(const FabricState& state) {
  Json to_observe = Json::array();
  for (const StepStatistics& statistics : state.to_observe) {
    to_observe.push_back(to_json(statistics));
  }
  const Json text{{"version", kVersion},
                  {"step", state.step},
                  {"ranks", state.ranks},
                  {"topology", state.topology ? to_string(*state.topology) : ""},
                  {"admission", state.admission},
                  {"dense_correction", state.dense_correction},
                  {"low_bit_correction", state.low_bit_correction},
                  {"to_observe", std::move(to_observe)},
                  {"pending", to_json(state.pending)}};
  return text.dump();
}

Expected<FabricState> parse_fabric_state(std::string_view text, std::size_t regions) {
  const Expected<Json> value = parse_json(text);
  if (!value) return bad(value.status().message());
  if (const auto version = value->is_object() ? value->find("version") : value->end();
      version != value->end() && *version != kVersion) {
    return Status(ErrorCode::kInvalidArgument,
                  fmt::format("the state has version {}, this build reads version {}",
                              legible(version->dump()), kVersion));
  }
  FabricState state;
  if (Status status = read_state(*value, regions, state); !status.ok()) {
    return status.code() == ErrorCode::kBadConfig ? bad(status.message()) : status;
  }
  return state;
}

}  // namespace nf
