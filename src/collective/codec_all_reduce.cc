#include "collective/codec_all_reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "collective/all_finite.h"
#include "collective/checkpoint_checks.h"
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

Status CodecAllReduce::check(const Codec& codec, const AllReduceOptions& options,
                             std::uint32_t ranks) {
  std::uint32_t summed = ranks;
  if (options.topology == Topology::kHierarchical) {
    if (options.host_group_size == 0 || ranks % options.host_group_size != 0) {
      return {ErrorCode::kBadConfig,
              fmt::format("hierarchical: host groups of {} do not divide {} ranks",
                          options.host_group_size, ranks)};
    }
    summed = ranks / options.host_group_size;
  }
  if (summed > codec.max_ranks()) {
    return {ErrorCode::kBadConfig, fmt::format("codec '{}' sums at most {} ranks, not {}",
                                               options.codec, codec.max_ranks(), summed)};
  }
  return {};
}

Expected<std::unique_ptr<CodecAllReduce>> CodecAllReduce::create(Transport& transport,
                                                                 const AllReduceOptions& options,
                                                                 Collective collective) {
  Expected<std::unique_ptr<Codec>> codec = make_codec(options.codec);
  if (!codec) return codec.status();
  Expected<std::unique_ptr<Codec>> dense = make_codec("fp32");
  if (!dense) return dense.status();
  NF_RETURN_IF_ERROR(check(**codec, options, transport.ranks()));
  return std::unique_ptr<CodecAllReduce>(
      new CodecAllReduce(transport, options, collective, std::move(*codec), std::move(*dense)));
}

CodecAllReduce::CodecAllReduce(Transport& transport, const AllReduceOptions& options,
                               Collective collective, std::unique_ptr<Codec> codec,
                               std::unique_ptr<Codec> dense)
    : transport_(transport),
      options_(options),
      collective_(collective),
      codec_(std::move(codec)),
      dense_(std::move(dense)),
      plans_(*codec_, {.ranks = is_hierarchical() ? transport.ranks() / options.host_group_size
                                                  : transport.ranks(),
                       .shape = sum_shape(is_hierarchical() ? topology_between_hosts(collective)
                                                            : options.topology),
                       .gathers = !scatters()}),
      host_plans_(*dense_, {.ranks = is_hierarchical() ? options.host_group_size : 1}) {
  const std::uint32_t rank = transport.rank();
  if (!is_hierarchical()) {
    schedule_ = make_schedule(options.topology, transport.ranks(), rank);
    if (scatters()) schedule_ = reduce_part(schedule_);
    folds_values_ = folds_several(schedule_) || plans_.has_stages();
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

FrameKind CodecAllReduce::frame_kind(const Codec& codec) const {
  return {.codec = codec_fingerprint(codec.spec().to_string()),
          .epoch = call_.epoch,
          .step = call_.step,
          .checksummed = options_.checksum};
}

Status CodecAllReduce::load_memory(std::span<const MemoryEntry> memory) {
  if (!codec_->keeps_residual()) return check_memory(memory, {});
  return residuals_.load_memory(memory);
}

Status CodecAllReduce::start(const AllReduceCall& call) {
  return start_as(call, describe_call(codec_->spec().to_string(), options_, call));
}

Status CodecAllReduce::start_shards(const AllReduceCall& call,
                                    std::span<const std::size_t> shards) {
  shards_.assign(shards.begin(), shards.end());
  NF_RETURN_IF_ERROR(
      start_as(call, describe_call(codec_->spec().to_string(), options_, call, shards)));
  return transport_.ranks() == 1 ? set_borders() : Status();
}

Status CodecAllReduce::run_shards(const AllReduceCall& call, std::span<const std::size_t> shards) {
  return complete(start_shards(call, shards), to_string(collective_), call.step);
}

Status CodecAllReduce::set_borders() {
  return borders_.assign(shards_, transport_.ranks(), positions_of(options_), transport_.rank());
}

std::span<const Piece> CodecAllReduce::own_shard() const {
  const std::size_t first = borders_.by_host[schedule_.rank];
  return std::span(whole_).subspan(first, borders_.by_host[schedule_.rank + 1] - first);
}

Status CodecAllReduce::set_call(const AllReduceCall& call) {
  if (codec_->keeps_residual()) NF_RETURN_IF_ERROR(check_loss_scale(call.loss_scale));
  gradients_.assign(call.gradients.begin(), call.gradients.end());
  call_ = call;
  call_.gradients = gradients_;
  state_ = State::kDone;
  return {};
}

Status CodecAllReduce::start_agreed(const AllReduceCall& call) {
  NF_RETURN_IF_ERROR(set_call(call));
  return transport_.ranks() == 1 ? Status() : begin_host_reduce();
}

Status CodecAllReduce::start_as(const AllReduceCall& call, const CallDescription& agreed) {
  NF_RETURN_IF_ERROR(set_call(call));
  if (transport_.ranks() == 1) return {};
  agreement_.emplace(transport_, agreed, loss_scale_of(call));
  state_ = State::kAgree;
  return {};
}

Expected<bool> CodecAllReduce::advance() {
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
    switch (state_) {
      case State::kAgree:
        traffic_.agreement += agreement_->bytes_sent();
        call_.loss_scale = agreement_->loss_scale().value;
        call_.loss_scale_version = agreement_->loss_scale().version;
        NF_RETURN_IF_ERROR(begin_host_reduce());
        break;
      case State::kHostReduce: NF_RETURN_IF_ERROR(begin_statistics()); break;
      case State::kStatistics: NF_RETURN_IF_ERROR(begin_sum()); break;
      case State::kSum: NF_RETURN_IF_ERROR(begin_host_gather()); break;
      case State::kHostGather: NF_RETURN_IF_ERROR(finish()); break;
      case State::kDone: break;
    }
  }
}

std::string CodecAllReduce::waiting_for() const {
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

TileCodec CodecAllReduce::tile_codec(const ChunkPlans& plans) const {
  return {.plans = &plans, .parameters = parameters_, .seed = options_.seed, .step = call_.step};
}

Status CodecAllReduce::prepare_work() {
  const bool has_residual = codec_->keeps_residual();
  std::size_t copied = 0;
  const auto needs_copy = [&](const Gradient& gradient) {
    return gradient.values.type != DataType::kFloat32 && (folds_values_ || has_residual);
  };
  for (const Gradient& gradient : gradients_) {
    if (needs_copy(gradient)) copied += gradient.values.count;
  }
  work_.resize(copied);
  parameters_.clear();
  counts_.clear();
  whole_.clear();
  float* room = work_.data();
  for (const Gradient& gradient : gradients_) {
    const std::size_t count = gradient.values.count;
    ParameterView view{
        .key = gradient.parameter, .result = gradient.values, .work = gradient.values};
    if (needs_copy(gradient)) {
      view.work = Values(std::span(room, count));
      widen(gradient.values, std::span(room, count));
      room += count;
    }
    if (has_residual) {
      const Expected<std::span<float>> residual = residuals_.begin(gradient.parameter, count);
      if (!residual) return residual.status();
      view.residual = *residual;
    }
    // The sum of the own shard is copied to the caller's values at the end.
    if (scatters()) view.result = view.work;
    whole_.push_back({.parameter = parameters_.size(), .first = 0, .count = count});
    parameters_.push_back(view);
    counts_.push_back(count);
  }
  return {};
}

Status CodecAllReduce::begin_host_reduce() {
  if (scatters()) NF_RETURN_IF_ERROR(set_borders());
  NF_RETURN_IF_ERROR(prepare_work());
  domain_ = whole_;
  if (!is_hierarchical()) return begin_statistics();
  // Parts start at granules of the codec, so that they can be summed over the host groups.
  host_plans_.make_even(codec_->granule(),
                        {.pieces = whole_, .counts = counts_, .borders = borders_.by_position},
                        options_.host_group_size, options_.tile_bytes);
  host_plans_.pieces_of(inner_->rank(), domain_);
  state_ = State::kHostReduce;
  return host_executor_.start(*inner_, inner_reduce_, tile_codec(host_plans_), frame_kind(*dense_));
}

Status CodecAllReduce::begin_statistics() {
  if (is_hierarchical()) count_traffic(host_executor_);
  if (codec_->keeps_residual()) residuals_.add(domain_, parameters_, call_.loss_scale);
  std::size_t bytes = 0;
  for (const std::size_t count : counts_) bytes += codec_->statistics_size(count);
  statistics_.resize(bytes);
  statistics_by_parameter_.clear();
  std::span<std::byte> room = statistics_;
  for (ParameterView& parameter : parameters_) {
    const std::size_t size = codec_->statistics_size(parameter.work.count);
    statistics_by_parameter_.push_back(room.first(size));
    parameter.statistics = room.first(size);
    room = room.subspan(size);
  }
  if (bytes == 0 || plans_.order().ranks == 1) return begin_sum();
  for (const Piece& piece : domain_) {
    const Values work = parameters_[piece.parameter].work;
    const auto* from = static_cast<const std::byte*>(work.data) + piece.first * size_of(work.type);
    NF_RETURN_IF_ERROR(codec_->statistics(
        ConstValues(from, piece.count, work.type),
        statistics_by_parameter_[piece.parameter].subspan(codec_->statistics_size(piece.first),
                                                          codec_->statistics_size(piece.count))));
  }
  state_ = State::kStatistics;
  return statistics_stage_.start(outer(), *codec_, frame_kind(*codec_), domain_,
                                 statistics_by_parameter_);
}

Status CodecAllReduce::begin_sum() {
  if (state_ == State::kStatistics) traffic_.statistics += statistics_stage_.bytes_sent();
  if (plans_.order().ranks == 1) return begin_host_gather();
  combined_.assign(statistics_by_parameter_.begin(), statistics_by_parameter_.end());
  NF_RETURN_IF_ERROR(
      plans_.make({.pieces = domain_, .counts = counts_, .borders = borders_.by_host}, combined_,
                  schedule_.chunks, options_.tile_bytes));
  TileCodec tile = tile_codec(plans_);
  tile.keeps_residual = codec_->keeps_residual();
  tile.loss_scale = call_.loss_scale;
  state_ = State::kSum;
  return executor_.start(outer(), schedule_, tile, frame_kind(*codec_));
}

Status CodecAllReduce::begin_host_gather() {
  if (state_ == State::kSum) count_traffic(executor_);
  if (scatters()) {
    NF_RETURN_IF_ERROR(copy_work_to_result(own_shard()));
    return finish();
  }
  if (!is_hierarchical()) return finish();
  // With a single host group, its sum is the result.
  if (state_ != State::kSum) NF_RETURN_IF_ERROR(copy_work_to_result(domain_));
  for (ParameterView& parameter : parameters_) parameter.work = parameter.result;
  state_ = State::kHostGather;
  return host_executor_.start(*inner_, inner_gather_, tile_codec(host_plans_), frame_kind(*dense_));
}

Status CodecAllReduce::copy_work_to_result(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    const Values work = parameters_[piece.parameter].work;
    const Values result = gradients_[piece.parameter].values;
    if (work.data == result.data) continue;
    const auto* sum = static_cast<const float*>(work.data) + piece.first;
    auto* to = static_cast<std::byte*>(result.data) + piece.first * size_of(result.type);
    NF_RETURN_IF_ERROR(dense_->decode(Slice{.count = piece.count}, {},
                                      std::as_bytes(std::span(sum, piece.count)),
                                      Values(to, piece.count, result.type)));
  }
  return {};
}

// Keeps the new residuals only if the sum is finite: a step whose sum contains NaN or Inf is
// skipped.
Status CodecAllReduce::finish() {
  if (state_ == State::kHostGather) count_traffic(host_executor_);
  state_ = State::kDone;
  if (codec_->keeps_residual() && is_finite()) residuals_.commit(parameters_);
  return {};
}

// In a reduce-scatter, a rank has the sum of its own shard only. The sum of another shard contains
// NaN or Inf if this rank's residual does.
bool CodecAllReduce::is_finite() const {
  if (!scatters()) {
    return std::ranges::all_of(
        parameters_, [](const ParameterView& parameter) { return all_finite(parameter.result); });
  }
  return std::ranges::all_of(parameters_,
                             [](const ParameterView& parameter) {
                               return all_finite(std::span<const float>(parameter.residual));
                             }) &&
         std::ranges::all_of(own_shard(), [this](const Piece& piece) {
           return all_finite(gradients_[piece.parameter].values);
         });
}

void CodecAllReduce::count_traffic(const Executor& executor) {
  traffic_.payload += executor.bytes_sent();
  traffic_.sums += executor.sum_bytes_sent();
}

void CodecAllReduce::widen(ConstValues values, std::span<float> out) const {
  // The fp32 message of any values is those values as FP32. Sizes match, so it cannot fail.
  (void)dense_->encode(Slice{.count = values.count}, {}, values, std::as_writable_bytes(out));
}

}  // namespace nf
