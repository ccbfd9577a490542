// Profiles as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nf::test {

using Json = nlohmann::ordered_json;

// A profile with all keys.
inline Json full() {
  return Json::parse(R"({
    "format": "neuron_fabric.profile", "version": 1, "name": "full",
    "regions": [
      {"name": "head", "names": ["fc.*", "classifier.*"]},
      {"name": "norm", "names": ["*"], "module_types": ["*Norm*", "*Norm?d"]},
      {"name": "backbone", "error_budget": 0.5}],
    "phases": [
      {"from_step": 0, "routes": {"head": "fp32", "norm": "fp32", "backbone": "waterfill:5"}},
      {"from_step": 2000, "routes": {"head": "bf16", "norm": "fp32", "backbone": "g_binary"}}],
    "health": {"warm_up_steps": 1, "norm_spike": 2.5, "loss_spike": 3, "error_budget": 0.25,
               "cool_down_steps": 4, "probation_steps": 5, "most_fallbacks": 6,
               "lock_out_window_steps": 7},
    "reducer": {"most_workers": 15, "lines_per_second": 1.5e9, "queue_lines": 4096},
    "smallest_parameter": 512,
    "provenance": {"tool": "a test", "evidence": [1, 2.5, {"deep": null}]}})");
}

// A minimal profile.
inline Json least() {
  return Json::parse(R"({"format": "neuron_fabric.profile", "version": 1, "name": "least",
                         "regions": [{"name": "all"}],
                         "phases": [{"from_step": 0, "routes": {"all": "fp32"}}]})");
}

// full() with the value at a JSON pointer replaced.
inline std::string full_with(const std::string& pointer, const std::string& value) {
  Json json = full();
  json[Json::json_pointer(pointer)] = Json::parse(value);
  return json.dump();
}

}  // namespace nf::test
