#include "cuda/collective/device_exchange_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collective/checkpoint_checks.h"
#include "collective/exchange_part.h"

namespace nf::cuda {
namespace {

Schedule schedule_of(const DeviceAllReduceOptions& options, std::uint32_t rank,
                     std::uint32_t ranks) {
  const Schedule whole = make_schedule(options.topology, ranks, rank);
  return options.collective == Collective::kReduceScatter ? reduce_part(whole) : whole;
}

}  // namespace

Status DeviceExchangePart::check(const DeviceAllReduceOptions& options, std::uint32_t ranks) {
  const Expected<std::unique_ptr<Codec>> codec = make_codec(options.codec);
  if (!codec) return codec.status();
  NF_RETURN_IF_ERROR(check_topology(options.collective, options.topology));
  if (options.topology == Topology::kHierarchical) {
    return {ErrorCode::kUnsupported, "DeviceAllReduce does not support the hierarchical topology"};
  }
  if ((*codec)->uses_rms_history()) {
    return {ErrorCode::kUnsupported,
            fmt::format("'{}' needs gradients in host memory: sums on a device keep no RMS "
                        "history; omit +rms",
                        options.codec)};
  }
  if (const auto device_codec = make_device_codec(**codec); !device_codec) {
    return device_codec.status();
  }
  return ExchangePart::check(**codec, {.codec = options.codec, .topology = options.topology},
                             ranks);
}

Expected<std::unique_ptr<DeviceExchangePart>> DeviceExchangePart::create(
    const DeviceAllReduceOptions& options, std::uint32_t rank, std::uint32_t ranks,
    ResidualMemory* memory) {
  NF_RETURN_IF_ERROR(check(options, ranks));
  Expected<std::unique_ptr<Codec>> codec = make_codec(options.codec);
  if (!codec) return codec.status();
  if ((*codec)->keeps_residual() && memory == nullptr) {
    return Status(ErrorCode::kInvalidArgument, "error feedback (+ef) needs a ResidualMemory");
  }
  std::unique_ptr<DeviceExchangePart> part(
      new DeviceExchangePart(options, rank, ranks, std::move(*codec), memory));
  if (Status status = part->make_codecs(); !status.ok()) return status;
  return part;
}

DeviceExchangePart::DeviceExchangePart(const DeviceAllReduceOptions& options, std::uint32_t rank,
                                       std::uint32_t ranks, std::unique_ptr<Codec> codec,
                                       ResidualMemory* memory)
    : options_(options),
      rank_(rank),
      ranks_(ranks),
      codec_(std::move(codec)),
      allocator_(or_pool(options.allocator)),
      hop_plan_(*codec_,
                {.ranks = ranks, .shape = sum_shape(options.topology), .gathers = !scatters()}),
      schedule_(schedule_of(options, rank, ranks)),
      rounds_(options.collective, options.topology, schedule_, merges()),
      contributions_(rounds_.contributions(codec_->keeps_residual())),
      adds_one_by_one_(codec_->keeps_residual() || !std::ranges::all_of(rounds_.added, can_fold)),
      feedback_(codec_->keeps_residual() ? std::make_unique<DeviceFeedback>(*memory, allocator_)
                                         : nullptr),
      statistics_(rank, ranks, allocator_),
      messages_({.plan = hop_plan_,
                 .codecs = hop_codecs_,
                 .rounds = rounds_,
                 .rank = rank,
                 .merges = merges(),
                 .feedback = feedback_.get()},
                allocator_) {}

Status DeviceExchangePart::make_codecs() {
  for (std::size_t hop = 0; hop < hop_plan_.stage_count(); ++hop) {
    Expected<std::unique_ptr<DeviceCodec>> codec = make_device_codec(hop_plan_.stage_codec(hop));
    if (!codec) return codec.status();
    hop_codecs_.push_back(std::move(*codec));
  }
  return {};
}

Status DeviceExchangePart::set_call(const AllReduceCall& call, std::span<const std::size_t> shards,
                                    std::span<const std::uint64_t> firsts) {
  call_ = call;
  draws_ = {.seed = options_.seed, .step = call.step};
  firsts_ = firsts;
  results_ = {.first = 0, .count = call.gradients.size()};
  if (codec_->keeps_residual()) NF_RETURN_IF_ERROR(check_loss_scale(call.loss_scale));
  if (!scatters()) return {};
  NF_RETURN_IF_ERROR(borders_.assign(shards, ranks_, 1, rank_));
  const std::vector<std::size_t>& borders = borders_.by_host;
  if (borders.back() != call.gradients.size()) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("the shards of the call have {} gradients, but the call has {}; give the "
                        "gradients of all shards, shard by shard",
                        borders.back(), call.gradients.size())};
  }
  results_ = {.first = borders[rank_], .count = borders[rank_ + 1] - borders[rank_]};
  return {};
}

Status DeviceExchangePart::reserve(cudaStream_t stream) {
  std::span<const Gradient> gradients = call_.gradients;
  if (feedback_ != nullptr) {
    NF_RETURN_IF_ERROR(feedback_->begin(call_, stream));
    // The rank encodes its own shard only if messages merge.
    if (scatters() && !merges()) NF_RETURN_IF_ERROR(feedback_->clear_residuals(results_, stream));
    gradients = feedback_->copies();
  }
  const Expected<DeviceLayout*> layout = find_layout(gradients, stream);
  if (!layout) return layout.status();
  layout_ = *layout;
  NF_RETURN_IF_ERROR(messages_.reserve(*layout_, stream));
  NF_RETURN_IF_ERROR(statistics_.reserve(layout_->plan(), *hop_codecs_.front(), stream));
  if (feedback_ != nullptr) NF_RETURN_IF_ERROR(feedback_->reserve(layout_->plan(), stream));
  return layout_->values().copy_in(stream);
}

Expected<DeviceLayout*> DeviceExchangePart::find_layout(std::span<const Gradient> gradients,
                                                        cudaStream_t stream) {
  const std::span<const std::size_t> borders = borders_.by_host;
  if (DeviceLayout* cached = layouts_.find(call_.step, [&](const DeviceLayout& layout) {
        return layout.key().is_of(gradients, firsts_, borders);
      })) {
    NF_RETURN_IF_ERROR(cached->move_to(gradients, stream));
    return cached;
  }
  Expected<std::unique_ptr<DeviceLayout>> made =
      DeviceLayout::create({.codec = *codec_,
                            .order = hop_plan_.order(),
                            .gradients = gradients,
                            .firsts = firsts_,
                            .schedule = schedule_,
                            .borders = borders,
                            .tile_bytes = options_.tile_bytes,
                            .contributions = contributions_,
                            .finished = rounds_.finished,
                            .adds_to_values = adds_one_by_one_ && !merges(),
                            .merges_one_by_one = adds_one_by_one_ && merges()},
                           allocator_, stream);
  if (!made) return made.status();
  return layouts_.add(call_.step, std::move(*made));
}

Status DeviceExchangePart::compute_statistics(cudaStream_t stream) {
  return statistics_.compute(layout_->plan(), draws_, *hop_codecs_.front(), stream);
}

void DeviceExchangePart::add_statistics(StreamTransfers& transfers) {
  statistics_.add_transfers(layout_->plan(), transfers);
}

Status DeviceExchangePart::combine_statistics(cudaStream_t stream) {
  return statistics_.combine(layout_->plan(), *hop_codecs_.front(), stream);
}

void DeviceExchangePart::add_combined_statistics(StreamTransfers& transfers) {
  statistics_.add_combined_transfers(layout_->plan(), transfers);
}

Status DeviceExchangePart::make_plan(cudaStream_t stream) {
  NF_RETURN_IF_ERROR(layout_->plan().make(stream));
  return feedback_ != nullptr ? feedback_->set_plan(layout_->plan(), stream) : Status();
}

Status DeviceExchangePart::compute(std::uint32_t tile, std::size_t round, cudaStream_t stream) {
  return messages_.compute(*layout_, draws_, tile, round, stream);
}

void DeviceExchangePart::add_transfers(std::uint32_t tile, std::size_t round,
                                       StreamTransfers& transfers) {
  messages_.add_transfers(*layout_, tile, round, transfers);
}

Status DeviceExchangePart::store(cudaStream_t stream) {
  NF_RETURN_IF_ERROR(layout_->values().copy_out(results_, stream));
  if (feedback_ == nullptr) return {};
  return scatters() ? feedback_->end_shard(results_, stream) : feedback_->end(stream);
}

Status DeviceExchangePart::release(cudaStream_t stream) {
  return feedback_ != nullptr ? feedback_->used(stream) : Status();
}

Traffic DeviceExchangePart::traffic() const {
  return {.statistics = statistics_.bytes_sent(),
          .payload = messages_.bytes_sent(),
          .sums = messages_.sum_bytes_sent()};
}

std::size_t DeviceExchangePart::memory() const {
  std::size_t bytes = messages_.memory() + statistics_.memory();
  bytes += layouts_.sum([](const DeviceLayout& layout) { return layout.memory(); });
  if (feedback_ != nullptr) bytes += feedback_->memory();
  return bytes;
}

}  // namespace nf::cuda
