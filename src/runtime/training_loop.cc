// The calls of a training loop between two steps: observations, queries and checkpoints.
#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/fabric_impl.h"
#include "runtime/fabric_state.h"

namespace nf {

void FabricImpl::observe_loss(double loss) {
  const std::lock_guard lock(mutex_);
  loss_ += loss;
  ++losses_;
}

void FabricImpl::set_loss_scale(float scale) {
  const std::lock_guard lock(mutex_);
  loss_scale_.value = scale;
  is_scale_fresh_ = true;
}

void FabricImpl::report_capacity_breach() {
  const std::lock_guard lock(mutex_);
  capacity_breach_ = true;
}

void FabricImpl::detach() {
  const std::lock_guard lock(mutex_);
  admission_.detach();
}

std::optional<bool> FabricImpl::should_step() const {
  std::unique_lock lock(mutex_);
  if (has_late_norms() && current_ != nullptr && current_->is_finished()) {
    const bool is_checked = changed_.wait_for(
        lock, options_.timeout, [this] { return !failure_.ok() || checked_steps_ >= step_; });
    if (!is_checked) return false;
  }
  return failure_.ok() ? is_finite_ : false;
}

Topology FabricImpl::topology() const {
  const std::lock_guard lock(mutex_);
  return topology_;
}

std::uint64_t FabricImpl::step() const {
  const std::lock_guard lock(mutex_);
  return step_;
}

std::vector<std::string> FabricImpl::drain() {
  const std::lock_guard lock(mutex_);
  return records_.drain();
}

std::string FabricImpl::state() const {
  const std::lock_guard lock(mutex_);
  return print(current_state());
}

FabricState FabricImpl::current_state() const {
  FabricState state{
      .step = step_,
      .ranks = transport_.ranks(),
      .topology = topology_,
      .admission = admission_.state(),
      .dense_correction = usefulness_->dense_correction(),
      .low_bit_correction = usefulness_->low_bit_correction(),
      .to_observe = {},
      .pending = {.loss = loss_, .losses = losses_, .capacity_breach = capacity_breach_}};
  for (const std::shared_ptr<TrainingStep>& step : to_observe_) {
    state.to_observe.push_back(step->statistics);
  }
  return state;
}

Status FabricImpl::load_state(std::string_view text) {
  const Expected<FabricState> state = parse_fabric_state(text, regions());
  if (!state) return state.status();
  const std::lock_guard lock(mutex_);
  NF_RETURN_IF_ERROR(admission_.load(state->admission));
  NF_RETURN_IF_ERROR(load_topology(*state));
  // The saved state may come from Admit::kUseful. This job would never update it.
  if (options_.admit != Admit::kUseful) admission_.set_useful(std::vector<bool>(regions(), true));
  usefulness_->load_corrections(state->dense_correction, state->low_bit_correction);
  step_ = summed_steps_ = checked_steps_ = state->step;
  loss_ = state->pending.loss;
  losses_ = state->pending.losses;
  capacity_breach_ = state->pending.capacity_breach;
  loss_scale_.version = 0;  // a version from after the loaded step would win over later ones
  to_observe_.clear();
  for (const StepStatistics& statistics : state->to_observe) {
    auto step = std::make_shared<TrainingStep>();
    step->statistics = statistics;
    to_observe_.push_back(std::move(step));
  }
  return {};
}

Status FabricImpl::load_topology(const FabricState& state) {
  if (options_.topology || !state.topology || *state.topology == topology_ ||
      state.ranks != transport_.ranks()) {
    return {};
  }
  const std::vector<Topology> known =
      topology_candidates(options_, binding_.profile(), transport_.ranks());
  if (std::ranges::find(known, *state.topology) == known.end()) return {};
  topology_ = *state.topology;
  NF_RETURN_IF_ERROR(set_path());
  // The speeds of the codecs remain those of the other topology; the corrections adjust them.
  set_usefulness();
  records_.push(topology_record(topology_));
  return {};
}

Expected<std::vector<Fabric::Memory>> FabricImpl::memory() const {
  Expected<MemoryByRoute> by_route = path_->memory(step());
  if (!by_route) return by_route.status();
  std::vector<Fabric::Memory> memory;
  for (auto& [route, entries] : *by_route) {
    for (MemoryEntry& entry : entries) memory.push_back({route, std::move(entry)});
  }
  return memory;
}

Status FabricImpl::load_memory(std::span<const Fabric::Memory> memory) {
  MemoryByRoute by_route;
  for (const Fabric::Memory& item : memory) by_route[item.route].push_back(item.entry);
  return path_->load_memory(by_route, step());
}

}  // namespace nf
