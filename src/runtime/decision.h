// How a region travels in one step, and why.
#pragma once

#include <optional>
#include <string_view>

namespace nf {

// The words never change their meaning (docs/admission.md).
enum class Reason {
  kAdmitted,     // low-bit: safe and useful
  kWarmUp,       // dense: the run has just begun
  kNotUseful,    // dense: low bits would not shorten the step
  kNonFinite,    // dense: the sum had NaN or infinity
  kNormSpike,    // dense: the norm jumped
  kLossSpike,    // dense: the loss jumped
  kErrorBudget,  // dense: the route made more error than allowed
  kCapacity,     // dense: the reducer cannot take it
  kCoolDown,     // dense: a while after a fallback
  kProbation,    // low-bit again, on trial
  kLockedOut,    // dense for good: too many fallbacks
  kForced,       // as the caller demanded, without admission
};

// "admitted", "warm_up", "not_useful", "non_finite", ...
std::string_view to_string(Reason reason);
// Nothing where no reason has that name.
std::optional<Reason> find_reason(std::string_view name);

struct Decision {
  bool is_low_bit = false;
  Reason reason = Reason::kWarmUp;

  friend bool operator==(const Decision&, const Decision&) = default;
};

}  // namespace nf
