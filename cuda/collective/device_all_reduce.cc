#include "cuda/collective/device_all_reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "collective/checkpoint_checks.h"
#include "collective/codec_all_reduce.h"
#include "cuda/base/launch.h"

namespace nf::cuda {

Status DeviceAllReduce::check(const DeviceAllReduceOptions& options, std::uint32_t ranks) {
  const Expected<std::unique_ptr<Codec>> codec = make_codec(options.codec);
  if (!codec) return codec.status();
  if (options.topology == Topology::kHierarchical) {
    return {ErrorCode::kUnsupported, "DeviceAllReduce does not support the hierarchical topology"};
  }
  if (const auto device_codec = make_device_codec(**codec); !device_codec) {
    return device_codec.status();
  }
  return CodecAllReduce::check(**codec, {.codec = options.codec, .topology = options.topology},
                               ranks);
}

Expected<std::unique_ptr<DeviceAllReduce>> DeviceAllReduce::create(
    StreamTransport& transport, const DeviceAllReduceOptions& options, ResidualMemory* memory) {
  NF_RETURN_IF_ERROR(check(options, transport.ranks()));
  Expected<std::unique_ptr<Codec>> codec = make_codec(options.codec);
  if (!codec) return codec.status();
  if ((*codec)->keeps_residual() && memory == nullptr) {
    return Status(ErrorCode::kInvalidArgument, "error feedback (+ef) needs a ResidualMemory");
  }
  std::unique_ptr<DeviceAllReduce> sum(
      new DeviceAllReduce(transport, options, std::move(*codec), memory));
  if (Status status = sum->prepare(); !status.ok()) return status;
  return sum;
}

DeviceAllReduce::DeviceAllReduce(StreamTransport& transport, const DeviceAllReduceOptions& options,
                                 std::unique_ptr<Codec> codec, ResidualMemory* memory)
    : transport_(transport),
      options_(options),
      codec_(std::move(codec)),
      allocator_(or_pool(options.allocator)),
      hop_plan_(*codec_, {.ranks = transport.ranks(), .shape = sum_shape(options.topology)}),
      schedule_(make_schedule(options.topology, transport.ranks(), transport.rank())),
      rounds_(options.topology, schedule_),
      contributions_(rounds_.contributions(codec_->keeps_residual())),
      adds_one_by_one_(codec_->keeps_residual() || !std::ranges::all_of(rounds_.added, can_fold)),
      feedback_(codec_->keeps_residual() ? std::make_unique<DeviceFeedback>(*memory, allocator_)
                                         : nullptr),
      maker_({.plan = hop_plan_,
              .codecs = hop_codecs_,
              .rounds = rounds_,
              .rank = transport.rank(),
              .merges = merges_messages(codec_->kind()),
              .feedback = feedback_.get()}),
      messages_(allocator_),
      statistics_(allocator_) {}

DeviceAllReduce::~DeviceAllReduce() {
  if (wire_ != nullptr) {
    static_cast<void>(cudaStreamSynchronize(wire_));
    static_cast<void>(cudaStreamDestroy(wire_));
  }
  for (const auto* events : {&made_, &arrived_}) {
    for (const cudaEvent_t event : *events) static_cast<void>(cudaEventDestroy(event));
  }
}

Status DeviceAllReduce::prepare() {
  for (std::size_t hop = 0; hop < hop_plan_.stage_count(); ++hop) {
    Expected<std::unique_ptr<DeviceCodec>> codec = make_device_codec(hop_plan_.stage_codec(hop));
    if (!codec) return codec.status();
    hop_codecs_.push_back(std::move(*codec));
  }
  return to_status(cudaStreamCreateWithFlags(&wire_, cudaStreamNonBlocking), "creating a stream");
}

const DeviceCodec& DeviceAllReduce::device_codec(std::uint32_t contributions) const {
  return *hop_codecs_[hop_plan_.stage(contributions)];
}

Expected<DeviceLayout*> DeviceAllReduce::layout_of(const AllReduceCall& call,
                                                   std::span<const std::uint64_t> firsts,
                                                   cudaStream_t stream) {
  const std::span<const Gradient> gradients = call.gradients;
  if (DeviceLayout* cached = layouts_.find(
          call.step, [&](const DeviceLayout& layout) { return layout.is_of(gradients); })) {
    return cached;
  }
  Expected<std::unique_ptr<DeviceLayout>> made = DeviceLayout::create(
      {.codec = *codec_,
       .order = hop_plan_.order(),
       .gradients = gradients,
       .firsts = firsts,
       .schedule = schedule_,
       .tile_bytes = options_.tile_bytes,
       .contributions = contributions_,
       .adds_to_values = adds_one_by_one_ && !merges_messages(codec_->kind()),
       .merges_one_by_one = adds_one_by_one_ && merges_messages(codec_->kind())},
      allocator_, stream);
  if (!made) return made.status();
  return layouts_.add(call.step, std::move(*made));
}

Status DeviceAllReduce::enqueue(const AllReduceCall& call, cudaStream_t stream) {
  if (feedback_ == nullptr) return enqueue_parts(call, {}, stream);
  NF_RETURN_IF_ERROR(transport_.health());
  if (transport_.ranks() == 1 || call.gradients.empty()) return check_loss_scale(call.loss_scale);
  Status status = feedback_->begin(call, stream);
  if (status.ok()) {
    if (feedback_->addresses_changed()) layouts_.clear();
    AllReduceCall own = call;
    own.gradients = feedback_->copies();
    status = enqueue_parts(own, {}, stream);
  }
  if (status.ok()) {
    status = feedback_->end(stream);
    if (!status.ok()) transport_.abort(status);
  }
  const Status recorded = feedback_->used(stream);
  return status.ok() ? recorded : status;
}

Status DeviceAllReduce::enqueue_parts(const AllReduceCall& call,
                                      std::span<const std::uint64_t> firsts, cudaStream_t stream) {
  NF_RETURN_IF_ERROR(transport_.health());
  if (transport_.ranks() == 1 || call.gradients.empty()) return {};
  const Expected<DeviceLayout*> found = layout_of(call, firsts, stream);
  if (!found) return found.status();
  const DeviceLayout& layout = **found;
  const std::uint32_t tiles = layout.plan().tiles_per_chunk();
  NF_RETURN_IF_ERROR(messages_.reserve(layout.message_bytes(), stream));
  const std::size_t scratch = hop_codecs_.front()->statistics_scratch_size(layout.plan().whole());
  NF_RETURN_IF_ERROR(statistics_.reserve(
      std::max<std::size_t>(aligned(layout.statistics_bytes()) + scratch, 1), stream));
  if (feedback_ != nullptr) NF_RETURN_IF_ERROR(feedback_->reserve(layout.plan(), stream));
  for (auto* events : {&made_, &arrived_}) {
    while (events->size() < tiles) {
      cudaEvent_t event = nullptr;
      NF_RETURN_IF_ERROR(
          to_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event"));
      events->push_back(event);
    }
  }
  Status status = layout.values().copy_in(stream);
  if (status.ok()) status = exchange_statistics(layout, call, stream);
  if (status.ok()) status = layout.plan().make(stream);
  if (status.ok() && feedback_ != nullptr) status = feedback_->set_plan(layout.plan(), stream);
  if (status.ok()) status = sum_tiles(layout, call, stream);
  if (status.ok()) status = layout.values().copy_out(stream);
  if (!status.ok()) {
    static_cast<void>(wait_for_exchanges(stream));
    transport_.abort(status);
  }
  return status;
}

// For an all-reduce that failed. Memory is freed in the order of `stream`, so after the exchanges.
Status DeviceAllReduce::wait_for_exchanges(cudaStream_t stream) {
  NF_RETURN_IF_ERROR(to_status(cudaEventRecord(arrived_.front(), wire_), "record"));
  return to_status(cudaStreamWaitEvent(stream, arrived_.front()), "wait");
}

// Every rank combines its part of all ranks' statistics and sends the result to all other ranks.
Status DeviceAllReduce::exchange_statistics(const DeviceLayout& layout, const AllReduceCall& call,
                                            cudaStream_t stream) {
  const DevicePlan& plan = layout.plan();
  if (plan.statistics_size() == 0) return {};
  const std::uint32_t rank = transport_.rank();
  std::byte* own = statistics_.data();
  std::byte* all = own + aligned(plan.statistics_size());
  Batch whole = plan.whole();
  whole.seed = options_.seed;
  whole.step = call.step;
  std::byte* scratch = own + aligned(layout.statistics_bytes());
  NF_RETURN_IF_ERROR(hop_codecs_.front()->statistics(whole, own, scratch, stream));

  const DevicePlan::Part& part = plan.part(rank);
  sends_.clear();
  receives_.clear();
  for (std::uint32_t peer = 0; peer < transport_.ranks(); ++peer) {
    const DevicePlan::Part& theirs = plan.part(peer);
    if (peer == rank) {
      NF_RETURN_IF_ERROR(to_status(cudaMemcpyAsync(all + rank * part.size, own + part.first,
                                                   part.size, cudaMemcpyDeviceToDevice, stream),
                                   "copy of statistics"));
      continue;
    }
    sends_.push_back({peer, own + theirs.first, theirs.size});
    receives_.push_back({peer, all + peer * part.size, part.size});
    traffic_.statistics += theirs.size + part.size;
  }
  NF_RETURN_IF_ERROR(transport_.exchange(sends_, receives_, stream));
  NF_RETURN_IF_ERROR(hop_codecs_.front()->combine_statistics(
      part.batch, transport_.ranks(), all, part.size, plan.statistics() + part.first, stream));
  sends_.clear();
  receives_.clear();
  for (std::uint32_t peer = 0; peer < transport_.ranks(); ++peer) {
    if (peer == rank) continue;
    const DevicePlan::Part& theirs = plan.part(peer);
    sends_.push_back({peer, plan.statistics() + part.first, part.size});
    receives_.push_back({peer, plan.statistics() + theirs.first, theirs.size});
  }
  return transport_.exchange(sends_, receives_, stream);
}

// Pipelines the tiles: each is one round behind the tile before it, so that the exchange of one
// tile overlaps with the kernels of another.
Status DeviceAllReduce::sum_tiles(const DeviceLayout& layout, const AllReduceCall& call,
                                  cudaStream_t stream) {
  const std::uint32_t tiles = layout.plan().tiles_per_chunk();
  for (std::size_t turn = 0; turn < tiles + rounds_.rounds.size(); ++turn) {
    for (std::uint32_t tile = 0; tile < tiles && tile <= turn; ++tile) {
      const std::size_t round = turn - tile;
      if (round > rounds_.rounds.size()) continue;
      if (round > 0) {
        NF_RETURN_IF_ERROR(to_status(cudaStreamWaitEvent(stream, arrived_[tile]), "wait"));
      }
      NF_RETURN_IF_ERROR(compute(layout, call, tile, round, stream));
      if (round == rounds_.rounds.size()) continue;
      NF_RETURN_IF_ERROR(to_status(cudaEventRecord(made_[tile], stream), "record"));
      NF_RETURN_IF_ERROR(to_status(cudaStreamWaitEvent(wire_, made_[tile]), "wait"));
      NF_RETURN_IF_ERROR(communicate(layout, tile, round));
      NF_RETURN_IF_ERROR(to_status(cudaEventRecord(arrived_[tile], wire_), "record"));
    }
  }
  return {};
}

Batch DeviceAllReduce::batch(const DeviceLayout& layout, const AllReduceCall& call,
                             std::uint32_t chunk, std::uint32_t tile) const {
  Batch batch = layout.plan().batch(chunk, tile);
  batch.seed = options_.seed;
  batch.step = call.step;
  return batch;
}

Status DeviceAllReduce::compute(const DeviceLayout& layout, const AllReduceCall& call,
                                std::uint32_t tile, std::size_t round, cudaStream_t stream) {
  const std::uint32_t rank = transport_.rank();
  if (round < rounds_.reduce_rounds) {
    for (const Step& step : rounds_.rounds[round].sends) {
      // All messages for the chunk have been received in earlier rounds.
      NF_RETURN_IF_ERROR(make_message(layout, call, step.chunk, tile, {rank, step.contributions},
                                      layout.partial(step.chunk), stream));
    }
    return {};
  }
  for (std::uint32_t chunk = 0; chunk < schedule_.chunks; ++chunk) {
    const std::uint32_t owner = schedule_.owners[chunk];
    const Origin origin{owner, transport_.ranks()};
    if (round == rounds_.reduce_rounds && owner == rank) {
      NF_RETURN_IF_ERROR(
          make_message(layout, call, chunk, tile, origin, layout.finished(chunk), stream));
    }
    if (round == rounds_.rounds.size()) {
      const std::byte* bytes = bytes_of(layout.finished(chunk), tile);
      NF_RETURN_IF_ERROR(device_codec(origin.contributions)
                             .decode(batch(layout, call, chunk, tile),
                                     layout.plan().message(chunk, tile, origin, bytes), stream));
    }
  }
  return {};
}

Status DeviceAllReduce::make_message(const DeviceLayout& layout, const AllReduceCall& call,
                                     std::uint32_t chunk, std::uint32_t tile, Origin origin,
                                     const MessageSlot& slot, cudaStream_t stream) {
  return maker_.make({.layout = layout,
                      .messages = messages_.data(),
                      .chunk = chunk,
                      .tile = tile,
                      .own = batch(layout, call, chunk, tile),
                      .origin = origin,
                      .out = bytes_of(slot, tile)},
                     stream);
}

Status DeviceAllReduce::communicate(const DeviceLayout& layout, std::uint32_t tile,
                                    std::size_t round) {
  const bool gathers = round >= rounds_.reduce_rounds;
  const auto transfer = [&](const Step& step, const MessageSlot& slot) {
    return StreamTransfer{step.peer, bytes_of(slot, tile),
                          layout.plan().message_size(step.chunk, tile, step.contributions)};
  };
  sends_.clear();
  receives_.clear();
  for (const Step& step : rounds_.rounds[round].sends) {
    sends_.push_back(
        transfer(step, gathers ? layout.finished(step.chunk) : layout.partial(step.chunk)));
    traffic_.payload += sends_.back().size;
    if (gathers) traffic_.sums += sends_.back().size;
  }
  for (const auto& [step, index] : rounds_.rounds[round].receives) {
    receives_.push_back(
        transfer(step, gathers ? layout.finished(step.chunk) : layout.incoming(step.chunk, index)));
  }
  return transport_.exchange(sends_, receives_, wire_);
}

std::size_t DeviceAllReduce::memory() const {
  std::size_t bytes = messages_.size() + statistics_.size();
  bytes += layouts_.sum([](const DeviceLayout& layout) { return layout.memory(); });
  if (feedback_ != nullptr) bytes += feedback_->memory();
  return bytes;
}

}  // namespace nf::cuda
