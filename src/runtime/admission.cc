#include "runtime/admission.h"

#include <optional>
#include <utility>

namespace nf {
namespace {

bool fits(const ReducerCapacity& reducer, std::uint32_t ranks) {
  return reducer.most_workers == 0 || ranks <= reducer.most_workers;
}

}  // namespace

Admission::Admission(const Binding& binding, std::uint32_t ranks, AdmissionMode mode)
    : binding_(binding),
      mode_(mode),
      fits_reducer_(fits(binding.profile().reducer, ranks)),
      monitor_(binding.profile()) {
  const std::size_t regions = binding.profile().regions.size();
  state_.regions.resize(regions);
  state_.decisions.resize(regions);
  state_.routes.resize(regions, std::string(kDenseRoute));
}

void Admission::observe(const StepStatistics& statistics) {
  if (mode_ == AdmissionMode::kForced) return;
  const std::vector<std::optional<Reason>>& breaches = monitor_.observe(statistics);
  for (std::size_t r = 0; r < breaches.size(); ++r) {
    if (breaches[r]) {
      handle_breach(state_.regions[r], *breaches[r], state_.decisions[r].is_low_bit);
    }
  }
}

// A breach is a fallback if the region uses low bits now, not if it did in the step of the breach:
// a region must not stay at low bits while a run is unstable.
void Admission::handle_breach(RegionState& region, Reason cause, bool is_low_bit) const {
  const HealthLimits& limits = binding_.profile().health;
  const std::uint64_t now = state_.next_step;
  const std::uint64_t cool_down_end = now + limits.cool_down_steps;
  if (region.fallback_state == FallbackState::kLockedOut) return;
  if (region.fallback_state == FallbackState::kCoolDown) {
    // The step in progress at the fallback often has a breach, too: not another fallback.
    region.dense_until = cool_down_end;
    return;
  }
  region.cause = cause;
  if (!is_low_bit) {
    region.dense_until = now + kQuietSteps;
    return;
  }
  region.is_fallback_new = true;
  region.dense_until = cool_down_end;
  std::erase_if(region.fallbacks,
                [&](std::uint64_t step) { return now - step >= limits.lock_out_window_steps; });
  region.fallbacks.push_back(now);
  const bool is_last = region.fallbacks.size() > limits.most_fallbacks;
  region.fallback_state = is_last ? FallbackState::kLockedOut : FallbackState::kCoolDown;
}

void Admission::set_useful(const std::vector<bool>& useful) {
  for (std::size_t r = 0; r < useful.size(); ++r) state_.regions[r].is_useful = useful[r];
}

std::vector<bool> Admission::useful() const {
  std::vector<bool> useful;
  for (const RegionState& region : state_.regions) useful.push_back(region.is_useful);
  return useful;
}

Decision Admission::decide_region(RegionState& region, std::uint64_t step) const {
  const HealthLimits& limits = binding_.profile().health;
  if (std::exchange(region.is_fallback_new, false)) return {false, region.cause};
  if (region.fallback_state == FallbackState::kLockedOut) return {false, Reason::kLockedOut};
  if (region.fallback_state == FallbackState::kCoolDown) {
    if (step < region.dense_until) return {false, Reason::kCoolDown};
    region.fallback_state = FallbackState::kProbation;
    region.probation_left = limits.probation_steps;
  }
  if (step < limits.warm_up_steps) return {false, Reason::kWarmUp};
  if (!region.is_useful) return {false, Reason::kNotUseful};
  if (step < region.dense_until) return {false, region.cause};
  if (region.fallback_state == FallbackState::kProbation) {
    if (region.probation_left > 0) {
      region.probation_left -= 1;
      return {true, Reason::kProbation};
    }
    region.fallback_state = FallbackState::kSteady;
  }
  return {true, Reason::kAdmitted};
}

std::span<const Decision> Admission::decide(std::uint64_t step) {
  bool is_changed = false;
  for (std::uint32_t r = 0; r < state_.regions.size(); ++r) {
    const std::string& profiled = binding_.route(r, step);
    const bool is_dense_route = profiled == kDenseRoute;
    Decision decision;
    if (is_detached_) {
      decision = {false, Reason::kForced};
    } else if (mode_ == AdmissionMode::kForced) {
      decision = {!is_dense_route, Reason::kForced};
    } else if (is_dense_route) {
      state_.regions[r].is_fallback_new = false;
      decision = {false, Reason::kAdmitted};
    } else if (!fits_reducer_) {
      decision = {false, Reason::kCapacity};
    } else {
      decision = decide_region(state_.regions[r], step);
    }
    const std::string_view route = decision.is_low_bit ? std::string_view(profiled) : kDenseRoute;
    if (decision != state_.decisions[r] || route != state_.routes[r]) {
      is_changed = true;
      state_.decisions[r] = decision;
      state_.routes[r] = route;
    }
  }
  if (is_changed && state_.next_step > 0) state_.epoch += 1;
  state_.next_step = step + 1;
  return state_.decisions;
}

std::string Admission::state() const {
  AdmissionState state = state_;
  state.means = monitor_.means();
  return state.print(binding_.profile().regions);
}

Status Admission::load(std::string_view text) {
  Expected<AdmissionState> state = AdmissionState::parse(text, binding_.profile().regions);
  if (!state) return state.status();
  monitor_.set_means(std::move(state->means));
  state_ = std::move(*state);
  return {};
}

}  // namespace nf
