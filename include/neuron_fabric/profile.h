// What a job may do with its gradients, when, and at which signs of trouble it must stop
// (docs/profile_format.md). A profile is data: it is parsed with limits, checked, never executed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf {

// A named set of parameters. A parameter belongs to the first region that takes it: one of `names`
// matches its qualified name and one of `module_types` the type of the module that owns it. Both
// are globs: `*` is any text, dots too, `?` any one byte; an empty list takes all.
struct Region {
  std::string name;
  std::vector<std::string> names = {};
  std::vector<std::string> module_types = {};
  std::optional<double> error_budget = {};  // instead of the profile's

  friend bool operator==(const Region&, const Region&) = default;
};

// From a step on, the route of every region: a codec as it is spelled, `fp32` for the engine's own
// all-reduce.
struct TrainingPhase {
  std::uint64_t from_step = 0;
  std::map<std::string, std::string> routes = {};

  friend bool operator==(const TrainingPhase&, const TrainingPhase&) = default;
};

// When a region loses its low-bit route, and how it gets it back.
struct HealthLimits {
  std::uint64_t warm_up_steps = 20;    // dense, at the start
  double norm_spike = 10;              // times the running mean of a region's norm
  double loss_spike = 6;               // deviations above the running mean of the loss
  double error_budget = 0.1;           // ‖g − Q(g)‖² / ‖g‖², of a rank's contributions
  std::uint64_t cool_down_steps = 50;  // dense, after a fallback
  std::uint64_t probation_steps = 50;  // low-bit, and one breach is a fallback again
  std::uint32_t most_fallbacks = 3;    // more of them within the window: locked out
  std::uint64_t lock_out_window_steps = 1000;

  friend bool operator==(const HealthLimits&, const HealthLimits&) = default;
};

// What the place that adds can take, where it is not the ranks themselves. 0 is no limit.
struct ReducerCapacity {
  std::uint32_t most_workers = 0;  // its counters hold so many contributions
  double lines_per_second = 0;     // of 64 bytes, from all workers together
  std::uint64_t queue_lines = 0;   // lines of one bucket, from all workers together

  friend bool operator==(const ReducerCapacity&, const ReducerCapacity&) = default;
};

struct Profile {
  static constexpr std::string_view kFormat = "neuron_fabric.profile";
  static constexpr std::uint32_t kVersion = 1;

  std::string name;
  std::vector<Region> regions;
  std::vector<TrainingPhase> phases;  // ascending; the first is from step 0
  HealthLimits health;
  ReducerCapacity reducer;
  std::uint64_t smallest_parameter = 1024;  // smaller ones travel dense whatever their region
  // An object of JSON, kept and not looked into; after parse() with sorted keys and no spaces.
  std::string provenance = "{}";

  // `origin` names the text in messages. Fails with kBadConfig on the first thing that is wrong:
  // what, where, and the nearest known word. Limits are in docs/profile_format.md.
  static Expected<Profile> parse(std::string_view json, std::string_view origin = "profile");
  static Expected<Profile> read(const std::string& path);

  // What parse() holds against a profile that was put together otherwise.
  Status check() const;

  // The one JSON text of this profile: of what parse() gave, parse(print()) gives the same again.
  std::string print() const;

  friend bool operator==(const Profile&, const Profile&) = default;
};

}  // namespace nf
