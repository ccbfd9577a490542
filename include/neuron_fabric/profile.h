// The profile of a job: the routes of its gradients by training phase, and the health limits at
// which regions fall back to dense (docs/profile_format.md). A profile is data: it is parsed with
// limits, checked, and never executed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf {

// A named set of parameters. A parameter belongs to the first region that matches it: one of
// `names` matches its qualified name, and one of `module_types` the type of its module. Both are
// globs: `*` matches any text including dots, `?` any single byte. An empty list matches
// everything.
struct Region {
  std::string name;
  std::vector<std::string> names = {};
  std::vector<std::string> module_types = {};
  std::optional<double> error_budget = {};  // overrides the profile's

  friend bool operator==(const Region&, const Region&) = default;
};

// The route of every region from a step on: a codec with its settings, or `fp32` for the all-reduce
// of the engine.
struct TrainingPhase {
  std::uint64_t from_step = 0;
  std::map<std::string, std::string> routes = {};

  friend bool operator==(const TrainingPhase&, const TrainingPhase&) = default;
};

// When a region loses its low-bit route, and when it gets it back.
struct HealthLimits {
  std::uint64_t warm_up_steps = 20;    // dense, at the start of training
  double norm_spike = 10;              // times the running mean of a region's norm
  double loss_spike = 6;               // standard deviations above the running mean of the loss
  double error_budget = 0.1;           // ‖g − Q(g)‖² / ‖g‖², of a rank's contributions
  std::uint64_t cool_down_steps = 50;  // dense, after a fallback
  std::uint64_t probation_steps = 50;  // low-bit; one breach is another fallback
  std::uint32_t most_fallbacks = 3;    // more than these within the window: locked out
  std::uint64_t lock_out_window_steps = 1000;

  friend bool operator==(const HealthLimits&, const HealthLimits&) = default;
};

// The capacity of a reducer outside the ranks. 0 means no limit.
struct ReducerCapacity {
  std::uint32_t most_workers = 0;  // contributions that its counters can hold
  double lines_per_second = 0;     // 64-byte lines of all workers together
  std::uint64_t queue_lines = 0;   // lines of one bucket of all workers together

  friend bool operator==(const ReducerCapacity&, const ReducerCapacity&) = default;
};

struct Profile {
  static constexpr std::string_view kFormat = "neuron_fabric.profile";
  static constexpr std::uint32_t kVersion = 1;

  std::string name;
  std::vector<Region> regions;
  std::vector<TrainingPhase> phases;  // ascending; the first starts at step 0
  HealthLimits health;
  ReducerCapacity reducer;
  std::uint64_t smallest_parameter = 1024;  // smaller parameters are always dense
  // A JSON object, kept but not interpreted. After parse() it has sorted keys and no spaces.
  std::string provenance = "{}";

  // `origin` names the text in messages. Fails with kBadConfig at the first error; the message
  // contains its position and the nearest known word. Limits are in docs/profile_format.md.
  static Expected<Profile> parse(std::string_view json, std::string_view origin = "profile");
  static Expected<Profile> read(const std::string& path);

  // The checks of parse(), for a profile that was built in code.
  Status check() const;

  // The canonical JSON text: for a parsed profile, parse(print()) returns the same profile.
  std::string print() const;

  friend bool operator==(const Profile&, const Profile&) = default;
};

}  // namespace nf
