// The decision about a region in one step, and its reason.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace nf {

// Why a region is dense or low-bit. python/neuron_fabric/telemetry/reasons.py has the meaning of
// each, and docs/admission.md the conditions; a test compares the three.
enum class Reason {
  kAdmitted,
  kWarmUp,
  kNotUseful,
  kNonFinite,
  kNormSpike,
  kLossSpike,
  kErrorBudget,
  kCapacity,
  kCoolDown,
  kProbation,
  kLockedOut,
  kForced,
};

// The names of all reasons, in the order of the enum: "admitted", "warm_up", ...
std::span<const std::string_view> reason_names();
std::string_view to_string(Reason reason);
// Returns nullopt if no reason has that name.
std::optional<Reason> find_reason(std::string_view name);

struct Decision {
  bool is_low_bit = false;
  Reason reason = Reason::kWarmUp;

  friend bool operator==(const Decision&, const Decision&) = default;
};

}  // namespace nf
