// The state of admission, and its JSON text.
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

// The fallback state of a region. Warm-up and usefulness are separate conditions.
enum class FallbackState {
  kSteady,     // low-bit if warmed up and useful
  kCoolDown,   // dense
  kProbation,  // low-bit, on trial
  kLockedOut,  // permanently dense
};

struct RegionState {
  FallbackState fallback_state = FallbackState::kSteady;
  bool is_useful = true;
  Reason cause = Reason::kAdmitted;      // of the last breach; kAdmitted before the first
  bool is_fallback_new = false;          // its cause has not been reported yet
  std::uint64_t dense_until = 0;         // step: the end of a cool-down or of a hold
  std::uint64_t probation_left = 0;      // low-bit steps
  std::vector<std::uint64_t> fallbacks;  // their steps, within the window
};

struct AdmissionState {
  static constexpr std::uint32_t kVersion = 1;

  std::uint64_t next_step = 0;  // the next one to decide; 0 before the first decision
  std::uint64_t epoch = 0;
  Monitor::Means means;
  // By region.
  std::vector<RegionState> regions;
  std::vector<Decision> decisions;  // the last ones
  std::vector<std::string> routes;  // in use

  // Precondition of both: `regions` are those of the profile. Doubles round-trip bit for bit.
  std::string print(std::span<const Region> regions) const;
  // Fails with kInvalidArgument if the text is not a state, has another version or other region
  // names.
  static Expected<AdmissionState> parse(std::string_view json, std::span<const Region> regions);
};

}  // namespace nf
