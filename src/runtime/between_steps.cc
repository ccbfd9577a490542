// What a training loop observes and asks between two steps, and what it takes to go on elsewhere.
#include <memory>
#include <utility>

#include "runtime/fabric_state.h"
#include "runtime/runtime_fabric.h"

namespace nf {

void RuntimeFabric::observe_loss(double loss) {
  const std::lock_guard lock(mutex_);
  loss_ += loss;
  ++losses_;
}

void RuntimeFabric::set_loss_scale(float scale) {
  const std::lock_guard lock(mutex_);
  loss_scale_.value = scale;
  is_scale_fresh_ = true;
}

void RuntimeFabric::report_capacity_breach() {
  const std::lock_guard lock(mutex_);
  capacity_breach_ = true;
}

void RuntimeFabric::detach() {
  const std::lock_guard lock(mutex_);
  admission_.detach();
}

std::optional<bool> RuntimeFabric::should_step() const {
  std::unique_lock lock(mutex_);
  if (path_->learns_late() && under_way_ != nullptr && under_way_->is_finished()) {
    summed_.wait_for(lock, options_.timeout,
                     [this] { return !failure_.ok() || judged_steps_ >= step_; });
  }
  return failure_.ok() ? is_sound_ : false;
}

std::uint64_t RuntimeFabric::step() const {
  const std::lock_guard lock(mutex_);
  return step_;
}

std::vector<std::string> RuntimeFabric::drain() {
  const std::lock_guard lock(mutex_);
  return records_.drain();
}

std::string RuntimeFabric::state() const {
  const std::lock_guard lock(mutex_);
  return print(current_state());
}

FabricState RuntimeFabric::current_state() const {
  FabricState state{
      .step = step_,
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

Status RuntimeFabric::load_state(std::string_view text) {
  const Expected<FabricState> state = parse_fabric_state(text, regions());
  if (!state) return state.status();
  const std::lock_guard lock(mutex_);
  NF_RETURN_IF_ERROR(admission_.load(state->admission));
  // The job that saved it may have asked what is useful; this one never would again.
  if (options_.admit != Admit::kUseful) admission_.set_useful(std::vector<bool>(regions(), true));
  usefulness_->load_corrections(state->dense_correction, state->low_bit_correction);
  step_ = summed_steps_ = judged_steps_ = state->step;
  loss_ = state->pending.loss;
  losses_ = state->pending.losses;
  capacity_breach_ = state->pending.capacity_breach;
  loss_scale_.version = 0;  // those of steps after the loaded one would count as later
  to_observe_.clear();
  for (const StepStatistics& statistics : state->to_observe) {
    auto step = std::make_shared<TrainingStep>();
    step->statistics = statistics;
    to_observe_.push_back(std::move(step));
  }
  return {};
}

Status RuntimeFabric::load_memory(std::span<const Memory> memory) {
  return path_->load_memory(memory, step());
}

}  // namespace nf
