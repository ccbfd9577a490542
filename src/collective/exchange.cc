#include "collective/exchange.h"

#include <utility>

#include "collective/complete_call.h"
#include "collective/host_groups.h"

namespace nf {
namespace {

// Whether the rank adds more than one message of a chunk to its values.
bool folds_several(const Schedule& schedule) {
  std::vector<std::uint32_t> received(schedule.chunks, 0);
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::kReduceReceive && ++received[step.chunk] > 1) return true;
  }
  return false;
}

}  // namespace

Exchange::Exchange(Transport& transport, const AllReduceOptions& options, Collective collective)
    : transport_(transport), options_(options), collective_(collective) {
  const std::uint32_t rank = transport.rank();
  if (!is_hierarchical()) {
    schedule_ = make_schedule(options.topology, transport.ranks(), rank);
    if (scatters()) schedule_ = reduce_part(schedule_);
    folds_values_ = folds_several(schedule_);
    return;
  }
  inner_.emplace(transport, host_group_of(rank, options.host_group_size));
  outer_.emplace(transport, same_position(rank, options.host_group_size, transport.ranks()));
  schedule_ = make_schedule(topology_between_hosts(collective), outer_->ranks(), outer_->rank());
  if (scatters()) schedule_ = reduce_part(schedule_);
  const Schedule inner = make_schedule(Topology::kDirect, inner_->ranks(), inner_->rank());
  inner_reduce_ = reduce_part(inner);
  inner_gather_ = nf::gather_part(inner);
  folds_values_ = true;
}

FrameKind Exchange::frame_kind(std::uint32_t codec) const {
  return {
      .codec = codec, .epoch = call_.epoch, .step = call_.step, .checksummed = options_.checksum};
}

FrameKind Exchange::frame_kind() const {
  std::uint32_t codec = parts_.front()->fingerprint();
  for (const ExchangePart* part : std::span(parts_).subspan(1)) {
    codec = combined_fingerprint(codec, part->fingerprint());
  }
  return frame_kind(codec);
}

FrameKind Exchange::host_frame_kind() const { return frame_kind(codec_fingerprint("fp32")); }

Status Exchange::set_call(const AllReduceCall& call, std::span<const Input> inputs) {
  call_ = call;
  call_.gradients = {};
  state_ = State::kDone;
  parts_.clear();
  for (const Input& input : inputs) {
    NF_RETURN_IF_ERROR(input.part->set_call(call, input.gradients, input.shards));
    parts_.push_back(input.part);
  }
  if (transport_.ranks() > 1) return {};
  for (ExchangePart* part : parts_) NF_RETURN_IF_ERROR(part->set_borders());
  return {};
}

Status Exchange::start(const AllReduceCall& call, std::span<const Input> inputs) {
  described_.clear();
  for (const Input& input : inputs) {
    described_.push_back({.codec = input.part->codec(),
                          .gradients = input.gradients,
                          .shards = input.shards,
                          .history = input.part->history_of(input.gradients)});
  }
  return start_as(call, inputs, describe_call(options_, call, collective_, described_));
}

Status Exchange::start_as(const AllReduceCall& call, std::span<const Input> inputs,
                          const CallDescription& agreed) {
  NF_RETURN_IF_ERROR(set_call(call, inputs));
  if (transport_.ranks() == 1) return {};
  agreement_.emplace(transport_, agreed, loss_scale_of(call));
  state_ = State::kAgree;
  return {};
}

Status Exchange::start_agreed(const AllReduceCall& call, std::span<const Input> inputs) {
  NF_RETURN_IF_ERROR(set_call(call, inputs));
  return transport_.ranks() == 1 ? Status() : begin_host_reduce();
}

Status Exchange::run(const AllReduceCall& call, std::span<const Input> inputs) {
  return complete_call(start(call, inputs), *this, transport_, options_.timeout,
                       to_string(collective_), call.step);
}

Expected<bool> Exchange::advance() {
  for (;;) {
    NF_RETURN_IF_ERROR(transport_.progress());
    Stage* stage = nullptr;
    switch (state_) {
      case State::kAgree: stage = &*agreement_; break;
      case State::kStatistics: stage = &statistics_stage_; break;
      case State::kSum: stage = &executor_; break;
      case State::kHostReduce:
      case State::kHostGather: stage = &host_executor_; break;
      case State::kDone: return true;
    }
    Expected<bool> is_done = stage->advance();
    if (!is_done || !*is_done) return is_done;
    NF_RETURN_IF_ERROR(end_stage());
  }
}

Status Exchange::end_stage() {
  switch (state_) {
    case State::kAgree:
      parts_.front()->traffic_.agreement += agreement_->bytes_sent();
      call_.loss_scale = agreement_->loss_scale().value;
      call_.loss_scale_version = agreement_->loss_scale().version;
      return begin_host_reduce();
    case State::kHostReduce: return begin_statistics();
    case State::kStatistics: return begin_sum();
    case State::kSum: return begin_host_gather();
    case State::kHostGather: return finish();
    case State::kDone: break;
  }
  return {};
}

std::string Exchange::waiting_for() const {
  switch (state_) {
    case State::kAgree: return agreement_->waiting_for();
    case State::kStatistics: return statistics_stage_.waiting_for();
    case State::kSum: return executor_.waiting_for();
    case State::kHostReduce:
    case State::kHostGather: return "its host group: " + host_executor_.waiting_for();
    case State::kDone: break;
  }
  return "nothing";
}

Status Exchange::begin_host_reduce() {
  for (ExchangePart* part : parts_) {
    NF_RETURN_IF_ERROR(part->set_borders());
    NF_RETURN_IF_ERROR(part->prepare(folds_values_));
  }
  if (!is_hierarchical()) return begin_statistics();
  tiles_.clear();
  for (ExchangePart* part : parts_) tiles_.push_back(part->plan_host_group());
  state_ = State::kHostReduce;
  return host_executor_.start(*inner_, inner_reduce_, tiles_, options_.tile_bytes,
                              host_frame_kind());
}

Status Exchange::begin_statistics() {
  if (is_hierarchical()) count_traffic(host_executor_);
  statistics_.clear();
  with_statistics_.clear();
  for (ExchangePart* part : parts_) {
    NF_RETURN_IF_ERROR(part->begin_statistics(call_.loss_scale, !has_outer_sum()));
    if (part->statistics().empty()) continue;
    statistics_.push_back(part->statistics_part());
    with_statistics_.push_back(part);
  }
  if (statistics_.empty() || !has_outer_sum()) return begin_sum();
  state_ = State::kStatistics;
  return statistics_stage_.start(outer(), statistics_, frame_kind());
}

Status Exchange::begin_sum() {
  if (state_ == State::kStatistics) count_statistics();
  if (!has_outer_sum()) return begin_host_gather();
  tiles_.clear();
  for (ExchangePart* part : parts_) {
    Expected<TileCodec> tiles = part->plan_sum(schedule_.chunks, call_.loss_scale);
    if (!tiles) return tiles.status();
    tiles_.push_back(*tiles);
  }
  state_ = State::kSum;
  return executor_.start(outer(), schedule_, tiles_, options_.tile_bytes, frame_kind());
}

Status Exchange::begin_host_gather() {
  const bool is_summed = state_ == State::kSum;
  if (is_summed) count_traffic(executor_);
  if (scatters()) {
    for (ExchangePart* part : parts_) NF_RETURN_IF_ERROR(part->store_own_shard());
    return finish();
  }
  if (!is_hierarchical()) return finish();
  tiles_.clear();
  for (ExchangePart* part : parts_) {
    Expected<TileCodec> tiles = part->plan_gather(is_summed);
    if (!tiles) return tiles.status();
    tiles_.push_back(*tiles);
  }
  state_ = State::kHostGather;
  return host_executor_.start(*inner_, inner_gather_, tiles_, options_.tile_bytes,
                              host_frame_kind());
}

Status Exchange::finish() {
  if (state_ == State::kHostGather) count_traffic(host_executor_);
  state_ = State::kDone;
  for (ExchangePart* part : parts_) NF_RETURN_IF_ERROR(part->finish(call_.loss_scale));
  return {};
}

void Exchange::count_traffic(const Executor& executor) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i]->traffic_.payload += executor.sent(i).bytes;
    parts_[i]->traffic_.sums += executor.sent(i).sums;
  }
}

void Exchange::count_statistics() {
  for (std::size_t i = 0; i < with_statistics_.size(); ++i) {
    with_statistics_[i]->traffic_.statistics += statistics_stage_.bytes_sent(i);
  }
}

}  // namespace nf
