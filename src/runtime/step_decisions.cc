// The decisions before the first bucket of a step, identical on every rank.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/checksum.h"
#include "runtime/fabric_impl.h"

namespace nf {
namespace {

// If no region uses low bits or is about to, only every kQuietInterval-th step is monitored: there
// is nothing to fall back from, and monitoring costs a pass over the gradients.
constexpr std::uint64_t kQuietInterval = 16;

// Whether a region uses low bits or may use them soon.
bool needs_monitoring(const Decision& decision) {
  switch (decision.reason) {
    case Reason::kAdmitted:
    case Reason::kNotUseful:
    case Reason::kLockedOut:
    case Reason::kForced: return decision.is_low_bit;
    default: return true;
  }
}

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Status FabricImpl::begin_step(std::unique_lock<std::mutex>& lock) {
  if (!std::exchange(has_compared_, true)) NF_RETURN_IF_ERROR(compare_states(lock));
  NF_RETURN_IF_ERROR(wait_for_statistics(lock));
  const Duration now = transport_.now();
  current_ = std::make_shared<TrainingStep>();
  TrainingStep& step = *current_;
  step.begin = now;
  if (std::exchange(is_scale_fresh_, false)) loss_scale_.version = step_ + 1;
  step.loss_scale = loss_scale_;
  step.statistics.step = step_;
  step.statistics.regions.resize(regions());
  step.traffic.resize(regions());
  step.local = {.loss = std::exchange(loss_, 0),
                .losses = std::exchange(losses_, 0),
                .seconds = last_begin_ == Duration{} ? 0 : seconds(now - last_begin_),
                .capacity_breach = std::exchange(capacity_breach_, false),
                .samples = std::vector<RouteSample>(regions()),
                .buckets = {}};
  last_begin_ = now;
  to_end_.push_back(current_);
  decide();
  return {};
}

// If only some ranks have loaded a state, they would run different all-reduces and hang.
Status FabricImpl::compare_states(std::unique_lock<std::mutex>& lock) {
  if (transport_.ranks() == 1) return {};
  FabricState state = current_state();
  state.pending = {};  // differs between ranks
  lock.unlock();
  const std::string text = print(state);
  Status status = statistics_reducer_.compare(state.step, checksum(text));
  lock.lock();
  return status.ok() ? status : fail(std::move(status));
}

// The statistics of step t decide step t + 2. A rank that has them sooner must not use them sooner.
Status FabricImpl::wait_for_statistics(std::unique_lock<std::mutex>& lock) {
  const bool has_come = changed_.wait_for(
      lock, options_.timeout, [this] { return !failure_.ok() || summed_steps_ + 1 >= step_; });
  NF_RETURN_IF_ERROR(failure_);
  if (!has_come) {
    return fail({ErrorCode::kDeadlineExceeded,
                 fmt::format("step {}: no statistics of step {} within {:.3g} s", step_,
                             summed_steps_, seconds(options_.timeout))});
  }
  is_over_capacity_ = false;
  while (!to_observe_.empty() && to_observe_.front()->statistics.step + 2 <= step_) {
    observe(*to_observe_.front());
    to_observe_.pop_front();
  }
  return {};
}

void FabricImpl::observe(TrainingStep& step) {
  StepStatistics& statistics = step.statistics;
  bool is_over_capacity = exceeds_rate(binding_.profile().reducer, statistics);
  if (recorded_) {  // ignore the step times of this run
    is_over_capacity = recorded_->at(step_).is_over_capacity;
    statistics.seconds = 0;
    if (is_over_capacity) ++statistics.capacity_breaches;
  }
  is_over_capacity_ |= is_over_capacity;
  admission_.observe(statistics);
  usefulness_->observe(step);
}

void FabricImpl::decide() {
  if (options_.admit == Admit::kUseful && recorded_) {
    admission_.set_useful(recorded_->at(step_).useful);
  } else if (options_.admit == Admit::kUseful && usefulness_->has_observed()) {
    // Until then the loaded decisions stay.
    std::vector<bool> in_use;
    for (const Decision& decision : admission_.decisions()) in_use.push_back(decision.is_low_bit);
    in_use.resize(regions(), false);
    admission_.set_useful(usefulness_->decide(step_, in_use));
  }
  if (MeasuredInputs inputs{admission_.useful(), is_over_capacity_}; inputs != recorded_inputs_) {
    records_.push(measured_record(binding_, step_, inputs));
    recorded_inputs_ = std::move(inputs);
  }
  const std::vector<Decision> before(admission_.decisions().begin(), admission_.decisions().end());
  const std::span<const Decision> now = admission_.decide(step_);
  TrainingStep& step = *current_;
  step.epoch = admission_.epoch();
  step.decisions.assign(now.begin(), now.end());
  step.routes.assign(admission_.routes().begin(), admission_.routes().end());
  for (std::uint32_t region = 0; region < regions(); ++region) {
    step.wanted.push_back(binding_.route(region, step_));
  }
  if (options_.mode == Mode::kShadow) {
    step.routes.assign(regions(), std::string(kDenseRoute));
  }
  step.is_monitored =
      transport_.ranks() > 1 && !admission_.is_detached() &&
      (step_ % kQuietInterval == 0 || std::ranges::any_of(step.decisions, needs_monitoring));
  for (std::uint32_t region = 0; region < before.size(); ++region) {
    if (before[region] != step.decisions[region]) {
      records_.push(decision_record(binding_, step, region, before[region]));
    }
  }
}

}  // namespace nf
