#include "runtime/decision.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace nf {
namespace {

// By the value of Reason.
constexpr std::array<std::string_view, 12> kNames = {
    "admitted",     "warm_up",  "not_useful", "non_finite", "norm_spike", "loss_spike",
    "error_budget", "capacity", "cool_down",  "probation",  "locked_out", "forced"};
static_assert(kNames.size() == static_cast<std::size_t>(Reason::kForced) + 1);

}  // namespace

std::span<const std::string_view> reason_names() { return kNames; }

std::string_view to_string(Reason reason) { return kNames.at(static_cast<std::size_t>(reason)); }

std::optional<Reason> find_reason(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return {};
  return static_cast<Reason>(found - kNames.begin());
}

}  // namespace nf
