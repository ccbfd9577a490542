#include "cuda/collective/device_low_rank.h"

#include <algorithm>
#include <utility>

#include "collective/checkpoint_checks.h"
#include "collective/low_rank_all_reduce.h"
#include "cuda/base/launch.h"
#include "cuda/codec/device_tables.h"
#include "neuron_fabric/reduce_scatter.h"

namespace nf::cuda {
namespace {

DeviceAllReduceOptions of_factors(const DeviceAllReduceOptions& options) {
  DeviceAllReduceOptions own = options;
  own.codec = "fp32";
  return own;
}

}  // namespace

Status DeviceLowRank::check(const DeviceAllReduceOptions& options, std::uint32_t ranks) {
  if (const auto terms = LowRankAllReduce::terms_of(options.codec); !terms) return terms.status();
  if (options.collective == Collective::kReduceScatter) {
    NF_RETURN_IF_ERROR(ReduceScatter::check({.codec = options.codec}));
  }
  return check_device_collective(of_factors(options), ranks);
}

Expected<std::unique_ptr<DeviceCollective>> DeviceLowRank::create(
    StreamTransport& transport, const DeviceAllReduceOptions& options, LowRankMemory& memory) {
  NF_RETURN_IF_ERROR(check(options, transport.ranks()));
  Expected<std::unique_ptr<DeviceCollective>> factors =
      make_device_collective(transport, of_factors(options), nullptr);
  if (!factors) return factors.status();
  return std::unique_ptr<DeviceCollective>(
      new DeviceLowRank(transport, options, memory, std::move(*factors)));
}

DeviceLowRank::DeviceLowRank(StreamTransport& transport, const DeviceAllReduceOptions& options,
                             LowRankMemory& memory, std::unique_ptr<DeviceCollective> factors)
    : transport_(transport),
      options_(options),
      memory_(memory),
      allocator_(or_pool(options.allocator)),
      factors_(std::move(factors)),
      factor_buffer_(allocator_),
      new_table_(allocator_) {}

Status DeviceLowRank::enqueue(const AllReduceCall& call, std::span<const std::size_t> /*shards*/,
                              cudaStream_t stream) {
  NF_RETURN_IF_ERROR(transport_.health());
  NF_RETURN_IF_ERROR(check_loss_scale(call.loss_scale));
  if (transport_.ranks() == 1 || call.gradients.empty()) return {};
  NF_RETURN_IF_ERROR(find_states(call.gradients, stream));
  const Expected<LowRankPlan*> plan = plan_of(call, stream);
  if (!plan) return plan.status();
  Status status = start_new(**plan, stream);
  if (status.ok()) status = sum(**plan, call, stream);
  if (const Status recorded = memory_.used(stream); status.ok()) status = recorded;
  if (!status.ok()) transport_.abort(status);
  return status;
}

Status DeviceLowRank::find_states(std::span<const Gradient> gradients, cudaStream_t stream) {
  states_.clear();
  for (const Gradient& gradient : gradients) {
    const std::size_t rows = std::max<std::size_t>(gradient.rows, 1);
    NF_RETURN_IF_ERROR(LowRankAllReduce::check_rows(gradient.values.count, rows));
    const Expected<LowRankMemory::State*> state =
        memory_.use(gradient.parameter, rows, gradient.values.count / rows, stream);
    if (!state) return state.status();
    states_.push_back(*state);
  }
  return {};
}

Expected<LowRankPlan*> DeviceLowRank::plan_of(const AllReduceCall& call, cudaStream_t stream) {
  LowRankPlan::Request request{.gradients = call.gradients,
                               .states = states_,
                               .terms = memory_.terms(),
                               .seed = options_.seed};
  NF_RETURN_IF_ERROR(
      factor_buffer_.reserve(std::max<std::size_t>(LowRankPlan::factor_bytes(request), 1), stream));
  request.factors = factor_buffer_.data();
  LowRankPlan* const known = plans_.find(
      call.step, [&](const LowRankPlan& plan) { return plan.key().is_of(call.gradients); });
  if (known != nullptr) {
    if (known->is_current(request)) {
      NF_RETURN_IF_ERROR(known->move_to(call.gradients, stream));
      return known;
    }
    plans_.remove(known);
  }
  Expected<std::unique_ptr<LowRankPlan>> made = LowRankPlan::create(request, allocator_, stream);
  if (!made) return made.status();
  return plans_.add(call.step, std::move(*made));
}

// Clears the error and draws the basis of new matrices.
Status DeviceLowRank::start_new(const LowRankPlan& plan, cudaStream_t stream) {
  std::vector<LowRankMatrix> matrices;
  auto matrix = plan.matrices().begin();
  for (LowRankMemory::State* state : states_) {
    if (state == nullptr) continue;
    if (state->is_new) matrices.push_back(*matrix);
    ++matrix;
  }
  if (matrices.empty()) return {};
  for (const LowRankMatrix& one : matrices) {
    NF_RETURN_IF_ERROR(to_status(
        cudaMemsetAsync(one.error, 0, std::size_t{one.rows} * one.cols * sizeof(float), stream),
        "clearing low-rank errors"));
  }
  const LowRankMatrix* there = nullptr;
  DeviceTables tables;
  tables.add(matrices, &there);
  NF_RETURN_IF_ERROR(tables.upload(new_table_, stream));
  NF_RETURN_IF_ERROR(init_bases(there, static_cast<std::uint32_t>(matrices.size()), memory_.terms(),
                                options_.seed, stream));
  for (LowRankMemory::State* state : states_) {
    if (state != nullptr) state->is_new = false;
  }
  return {};
}

Status DeviceLowRank::sum(const LowRankPlan& plan, const AllReduceCall& call, cudaStream_t stream) {
  const auto sum_factors = [&](std::span<const Gradient> factors) {
    AllReduceCall own = call;
    own.gradients = factors;
    return factors_->enqueue(own, stream);
  };
  NF_RETURN_IF_ERROR(compute_first_factors(plan.tables(), call.loss_scale, stream));
  NF_RETURN_IF_ERROR(sum_factors(plan.first()));
  NF_RETURN_IF_ERROR(compute_second_factors(plan.tables(), call.loss_scale, stream));
  NF_RETURN_IF_ERROR(sum_factors(plan.second()));
  return finish_low_rank(plan.tables(), call.loss_scale, stream);
}

std::size_t DeviceLowRank::memory() const {
  return factors_->memory() + factor_buffer_.size() + new_table_.size() +
         plans_.sum([](const LowRankPlan& plan) { return plan.memory(); });
}

}  // namespace nf::cuda
