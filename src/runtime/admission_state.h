// Everything admission remembers, and its one JSON text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/profile.h"
#include "neuron_fabric/status.h"
#include "runtime/decision.h"
#include "runtime/monitor.h"

namespace nf {

// Where a region stands with its fallbacks. Warm-up and usefulness come on top.
enum class FallbackState {
  kSteady,     // low-bit, were it warm and useful
  kCoolDown,   // dense
  kProbation,  // low-bit, on trial
  kLockedOut,  // dense for good
};

struct RegionState {
  FallbackState fallback_state = FallbackState::kSteady;
  bool is_useful = true;
  Reason cause = Reason::kAdmitted;      // the latest breach; kAdmitted before the first
  bool is_fallback_new = false;          // its cause has not been shown yet
  std::uint64_t dense_until = 0;         // a step: the end of a cool-down or of a hold
  std::uint64_t probation_left = 0;      // low-bit steps
  std::vector<std::uint64_t> fallbacks;  // their steps, those within the window
};

struct AdmissionState {
  static constexpr std::uint32_t kVersion = 1;

  std::uint64_t next_step = 0;  // to decide; 0 before the first decision
  std::uint64_t epoch = 0;
  Monitor::Means means;
  // By region.
  std::vector<RegionState> regions;
  std::vector<Decision> decisions;  // the latest
  std::vector<std::string> routes;  // in use

  // Precondition of both: `regions` are those of the profile. Doubles come back with the same bits.
  std::string print(std::span<const Region> regions) const;
  // Fails with kInvalidArgument where the text is no state, of another version or of regions with
  // other names.
  static Expected<AdmissionState> parse(std::string_view json, std::span<const Region> regions);
};

}  // namespace nf
