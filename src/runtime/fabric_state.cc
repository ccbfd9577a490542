#include "runtime/fabric_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace nf {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

// Numbers round-trip: nlohmann-json prints a double with as many digits as it takes, and NaN as
// null, which is read back as NaN.
json to_json(const StepStatistics& statistics) {
  json regions = json::array();
  for (const RegionStatistics& region : statistics.regions) {
    regions.push_back(
        {region.energy, region.non_finite, region.error_energy, region.sample_energy});
  }
  return {{"step", statistics.step},       {"loss", statistics.loss},
          {"losses", statistics.losses},   {"lines", statistics.lines},
          {"seconds", statistics.seconds}, {"capacity_breaches", statistics.capacity_breaches},
          {"regions", std::move(regions)}};
}

double number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

StepStatistics from_json(const json& value) {
  StepStatistics statistics;
  statistics.step = value.at("step");
  statistics.loss = number(value.at("loss"));
  statistics.losses = value.at("losses");
  statistics.lines = number(value.at("lines"));
  statistics.seconds = number(value.at("seconds"));
  statistics.capacity_breaches = value.at("capacity_breaches");
  for (const json& region : value.at("regions")) {
    statistics.regions.push_back({.energy = number(region.at(0)),
                                  .non_finite = region.at(1),
                                  .error_energy = number(region.at(2)),
                                  .sample_energy = number(region.at(3))});
  }
  return statistics;
}

json to_json(const Pending& pending) {
  return {{"loss", pending.loss},
          {"losses", pending.losses},
          {"capacity_breach", pending.capacity_breach}};
}

Pending pending_from_json(const json& value) {
  return {.loss = number(value.at("loss")),
          .losses = value.at("losses"),
          .capacity_breach = value.at("capacity_breach")};
}

}  // namespace

std::string print(const FabricState& state) {
  json to_observe = json::array();
  for (const StepStatistics& statistics : state.to_observe) {
    to_observe.push_back(to_json(statistics));
  }
  const json text{{"version", kVersion},
                  {"step", state.step},
                  {"admission", state.admission},
                  {"dense_correction", state.dense_correction},
                  {"low_bit_correction", state.low_bit_correction},
                  {"to_observe", std::move(to_observe)},
                  {"pending", to_json(state.pending)}};
  return text.dump();
}

Expected<FabricState> parse_fabric_state(std::string_view text, std::size_t regions) {
  try {
    const json value = json::parse(text);
    if (value.at("version") != kVersion) {
      return Status(ErrorCode::kInvalidArgument,
                    fmt::format("the state is of version {}, this build reads version {}",
                                value.at("version").dump(), kVersion));
    }
    FabricState state{.step = value.at("step"),
                      .admission = value.at("admission"),
                      .dense_correction = value.at("dense_correction"),
                      .low_bit_correction = value.at("low_bit_correction"),
                      .to_observe = {},
                      .pending = {}};
    for (const json& item : value.at("to_observe")) {
      state.to_observe.push_back(from_json(item));
      if (state.to_observe.back().regions.size() != regions) {
        return Status(ErrorCode::kInvalidArgument,
                      fmt::format("the state is of {} regions, this job has {}",
                                  state.to_observe.back().regions.size(), regions));
      }
    }
    if (value.contains("pending")) state.pending = pending_from_json(value["pending"]);
    return state;
  } catch (const json::exception& error) {
    return Status(ErrorCode::kInvalidArgument,
                  fmt::format("no state of a fabric: {}", error.what()));
  }
}

}  // namespace nf
