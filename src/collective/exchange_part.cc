#include "collective/exchange_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collective/all_finite.h"
#include "collective/checkpoint_checks.h"
#include "collective/host_groups.h"
#include "collective/tile_size.h"

namespace nf {

Status ExchangePart::check(const Codec& codec, const AllReduceOptions& options,
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

Expected<std::unique_ptr<ExchangePart>> ExchangePart::create(const AllReduceOptions& options,
                                                             Collective collective,
                                                             std::uint32_t rank,
                                                             std::uint32_t ranks) {
  Expected<std::unique_ptr<Codec>> codec = make_codec(options.codec);
  if (!codec) return codec.status();
  Expected<std::unique_ptr<Codec>> dense = make_codec("fp32");
  if (!dense) return dense.status();
  NF_RETURN_IF_ERROR(check(**codec, options, ranks));
  return std::unique_ptr<ExchangePart>(
      new ExchangePart(options, collective, rank, ranks, std::move(*codec), std::move(*dense)));
}

ExchangePart::ExchangePart(const AllReduceOptions& options, Collective collective,
                           std::uint32_t rank, std::uint32_t ranks, std::unique_ptr<Codec> codec,
                           std::unique_ptr<Codec> dense)
    : options_(options),
      collective_(collective),
      rank_(rank),
      ranks_(ranks),
      codec_(std::move(codec)),
      statistics_kind_(*codec_),
      dense_(std::move(dense)),
      name_(codec_->spec().to_string()),
      fingerprint_(codec_fingerprint(name_)),
      plans_(*codec_, {.ranks = ranks / positions_of(options),
                       .shape = sum_shape(is_hierarchical() ? topology_between_hosts(collective)
                                                            : options.topology),
                       .gathers = !scatters()}),
      host_plans_(*dense_, {.ranks = positions_of(options)}) {}

std::vector<MemoryEntry> ExchangePart::save_memory() const {
  return codec_->uses_rms_history() ? rms_history_.save_memory() : residuals_.save_memory();
}

Status ExchangePart::load_memory(std::span<const MemoryEntry> memory) {
  if (codec_->uses_rms_history()) return rms_history_.load_memory(memory);
  if (!codec_->keeps_residual()) return check_memory(memory, {});
  return residuals_.load_memory(memory);
}

void ExchangePart::forget(std::uint64_t parameter) {
  residuals_.forget(parameter);
  rms_history_.forget(parameter);
}

void ExchangePart::undo(std::uint64_t parameter) {
  residuals_.undo(parameter);
  rms_history_.undo(parameter);
}

void ExchangePart::reset() {
  residuals_.clear();
  rms_history_.clear();
}

std::uint64_t ExchangePart::history_of(std::span<const Gradient> gradients) const {
  std::uint64_t digest = 0;
  if (!codec_->uses_rms_history()) return digest;
  for (const Gradient& gradient : gradients) {
    digest = rms_history_.digest(gradient.parameter, digest);
  }
  return digest;
}

Status ExchangePart::set_call(const AllReduceCall& call, std::span<const Gradient> gradients,
                              std::span<const std::size_t> shards) {
  if (codec_->keeps_residual() || codec_->uses_rms_history()) {
    NF_RETURN_IF_ERROR(check_loss_scale(call.loss_scale));
  }
  step_ = call.step;
  gradients_.assign(gradients.begin(), gradients.end());
  shards_.assign(shards.begin(), shards.end());
  return {};
}

Status ExchangePart::set_borders() {
  if (!scatters()) return {};
  return borders_.assign(shards_, ranks_, positions_of(options_), rank_);
}

Status ExchangePart::prepare(bool folds_values) {
  const bool has_residual = codec_->keeps_residual();
  const bool has_units = codec_->uses_rms_history();
  const auto needs_copy = [&](const Gradient& gradient) {
    return gradient.values.type != DataType::kFloat32 &&
           (folds_values || plans_.has_stages() || has_residual || has_units);
  };
  std::size_t copied = 0;
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
    if (has_units) {
      NF_RETURN_IF_ERROR(rms_history_.scale(gradient.parameter,
                                            std::span(static_cast<float*>(view.work.data), count)));
    }
    // The sum is copied to the caller's values at the end.
    if (scatters() || has_units) view.result = view.work;
    whole_.push_back({.parameter = parameters_.size(), .first = 0, .count = count});
    parameters_.push_back(view);
    counts_.push_back(count);
  }
  domain_ = whole_;
  return {};
}

TileCodec ExchangePart::plan_host_group() {
  // Shares start at granules of the codec, so that they can be summed over the host groups.
  host_plans_.make_even(codec_->granule(),
                        {.pieces = whole_, .counts = counts_, .borders = borders_.by_position},
                        options_.host_group_size,
                        tile_size(*dense_, whole_, options_.host_group_size, options_.tile_bytes));
  host_plans_.pieces_of(rank_ % options_.host_group_size, domain_);
  return host_tiles();
}

TileCodec ExchangePart::host_tiles() const {
  return {.plans = &host_plans_, .parameters = parameters_, .seed = options_.seed, .step = step_};
}

Status ExchangePart::begin_statistics(float loss_scale, bool has_sum) {
  if (codec_->keeps_residual()) residuals_.add(domain_, parameters_, loss_scale);
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
  if (bytes == 0 || has_sum) return {};
  for (const Piece& piece : domain_) {
    const Values work = parameters_[piece.parameter].work;
    const auto* from = static_cast<const std::byte*>(work.data) + piece.first * size_of(work.type);
    NF_RETURN_IF_ERROR(codec_->statistics(
        ConstValues(from, piece.count, work.type),
        statistics_by_parameter_[piece.parameter].subspan(codec_->statistics_size(piece.first),
                                                          codec_->statistics_size(piece.count))));
  }
  return {};
}

StatisticsPart ExchangePart::statistics_part() {
  return {.kind = &statistics_kind_, .domain = domain_, .by_parameter = statistics_by_parameter_};
}

Expected<TileCodec> ExchangePart::plan_sum(std::uint32_t chunks, float loss_scale) {
  combined_.assign(statistics_by_parameter_.begin(), statistics_by_parameter_.end());
  NF_RETURN_IF_ERROR(
      plans_.make({.pieces = domain_, .counts = counts_, .borders = borders_.by_host}, combined_,
                  chunks, tile_size(*codec_, domain_, chunks, options_.tile_bytes)));
  return TileCodec{.plans = &plans_,
                   .parameters = parameters_,
                   .seed = options_.seed,
                   .step = step_,
                   .keeps_residual = codec_->keeps_residual(),
                   .loss_scale = loss_scale};
}

std::span<const Piece> ExchangePart::own_shard() const {
  const std::uint32_t host = rank_ / positions_of(options_);
  const std::size_t first = borders_.by_host[host];
  return std::span(whole_).subspan(first, borders_.by_host[host + 1] - first);
}

Status ExchangePart::store_own_shard() { return copy_work_to_result(own_shard()); }

Expected<TileCodec> ExchangePart::plan_gather(bool is_summed) {
  if (!is_summed && !codec_->uses_rms_history()) {
    NF_RETURN_IF_ERROR(copy_work_to_result(domain_));
  }
  for (ParameterView& parameter : parameters_) parameter.work = parameter.result;
  return host_tiles();
}

Status ExchangePart::copy_work_to_result(std::span<const Piece> pieces) {
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

Status ExchangePart::finish(float loss_scale) {
  if (codec_->uses_rms_history()) NF_RETURN_IF_ERROR(restore_units());
  if (!codec_->keeps_residual() && !codec_->uses_rms_history()) return {};
  if (!is_finite()) return {};
  if (codec_->keeps_residual()) {
    residuals_.commit(parameters_);
    return {};
  }
  for (const ParameterView& parameter : parameters_) {
    const std::span sum(static_cast<const float*>(parameter.work.data), parameter.work.count);
    rms_history_.commit(parameter.key, sum, 1.0F / loss_scale);
  }
  return {};
}

Status ExchangePart::restore_units() {
  for (const ParameterView& parameter : parameters_) {
    rms_history_.unscale(parameter.key,
                         std::span(static_cast<float*>(parameter.work.data), parameter.work.count));
  }
  return copy_work_to_result(whole_);
}

// In a reduce-scatter, a rank has the sum of its own shard only. The sum of another shard contains
// NaN or Inf if this rank's residual does.
bool ExchangePart::is_finite() const {
  if (!scatters()) {
    return std::ranges::all_of(
        gradients_, [](const Gradient& gradient) { return all_finite(gradient.values); });
  }
  return std::ranges::all_of(parameters_,
                             [](const ParameterView& parameter) {
                               return all_finite(std::span<const float>(parameter.residual));
                             }) &&
         std::ranges::all_of(own_shard(), [this](const Piece& piece) {
           return all_finite(gradients_[piece.parameter].values);
         });
}

void ExchangePart::widen(ConstValues values, std::span<float> out) const {
  // The fp32 message of any values is those values as FP32. Sizes match, so it cannot fail.
  (void)dense_->encode(Slice{.count = values.count}, {}, values, std::as_writable_bytes(out));
}

}  // namespace nf
