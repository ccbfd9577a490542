#include "runtime/decision.h"

#include <array>

namespace nf {
namespace {

constexpr std::array kReasons = {Reason::kAdmitted,    Reason::kWarmUp,    Reason::kNotUseful,
                                 Reason::kNonFinite,   Reason::kNormSpike, Reason::kLossSpike,
                                 Reason::kErrorBudget, Reason::kCapacity,  Reason::kCoolDown,
                                 Reason::kProbation,   Reason::kLockedOut, Reason::kForced};

}  // namespace

std::string_view to_string(Reason reason) {
  switch (reason) {
    case Reason::kAdmitted: return "admitted";
    case Reason::kWarmUp: return "warm_up";
    case Reason::kNotUseful: return "not_useful";
    case Reason::kNonFinite: return "non_finite";
    case Reason::kNormSpike: return "norm_spike";
    case Reason::kLossSpike: return "loss_spike";
    case Reason::kErrorBudget: return "error_budget";
    case Reason::kCapacity: return "capacity";
    case Reason::kCoolDown: return "cool_down";
    case Reason::kProbation: return "probation";
    case Reason::kLockedOut: return "locked_out";
    case Reason::kForced: return "forced";
  }
  return "unknown";
}

std::optional<Reason> find_reason(std::string_view name) {
  for (const Reason reason : kReasons) {
    if (to_string(reason) == name) return reason;
  }
  return {};
}

}  // namespace nf
