#include "cuda/collective/device_all_reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "collective/checkpoint_checks.h"
#include "collective/exchange_part.h"
#include "cuda/base/launch.h"

namespace nf::cuda {
namespace {

Schedule schedule_of(const DeviceAllReduceOptions& options, const StreamTransport& transport) {
  const Schedule whole = make_schedule(options.topology, transport.ranks(), transport.rank());
  return options.collective == Collective::kReduceScatter ? reduce_part(whole) : whole;
}

}  // namespace

Status DeviceAllReduce::check(const DeviceAllReduceOptions& options, std::uint32_t ranks) {
  const Expected<std::unique_ptr<Codec>> codec = make_codec(options.codec);
  if (!codec) return codec.status();
  NF_RETURN_IF_ERROR(check_topology(options.collective, options.topology));
  if (options.topology == Topology::kHierarchical) {
    return {ErrorCode::kUnsupported, "DeviceAllReduce does not support the hierarchical topology"};
  }
  if (const auto device_codec = make_device_codec(**codec); !device_codec) {
    return device_codec.status();
  }
  return ExchangePart::check(**codec, {.codec = options.codec, .topology = options.topology},
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
      own_wire_(options.wire == nullptr ? std::make_unique<Wire>() : nullptr),
      hop_plan_(*codec_, {.ranks = transport.ranks(),
                          .shape = sum_shape(options.topology),
                          .gathers = !scatters()}),
      schedule_(schedule_of(options, transport)),
      rounds_(options.collective, options.topology, schedule_, merges()),
      contributions_(rounds_.contributions(codec_->keeps_residual())),
      adds_one_by_one_(codec_->keeps_residual() || !std::ranges::all_of(rounds_.added, can_fold)),
      feedback_(codec_->keeps_residual() ? std::make_unique<DeviceFeedback>(*memory, allocator_)
                                         : nullptr),
      statistics_(transport, allocator_),
      executor_({.transport = transport,
                 .wire = own_wire_ != nullptr ? *own_wire_ : *options.wire,
                 .plan = hop_plan_,
                 .codecs = hop_codecs_,
                 .rounds = rounds_,
                 .merges = merges(),
                 .feedback = feedback_.get()},
                allocator_) {}

Status DeviceAllReduce::prepare() {
  for (std::size_t hop = 0; hop < hop_plan_.stage_count(); ++hop) {
    Expected<std::unique_ptr<DeviceCodec>> codec = make_device_codec(hop_plan_.stage_codec(hop));
    if (!codec) return codec.status();
    hop_codecs_.push_back(std::move(*codec));
  }
  return executor_.prepare();
}

Status DeviceAllReduce::check_call(const AllReduceCall& call, std::span<const std::size_t> shards) {
  results_ = {.first = 0, .count = call.gradients.size()};
  if (codec_->keeps_residual()) NF_RETURN_IF_ERROR(check_loss_scale(call.loss_scale));
  if (!scatters()) return {};
  NF_RETURN_IF_ERROR(borders_.assign(shards, transport_.ranks(), 1, transport_.rank()));
  const std::vector<std::size_t>& borders = borders_.by_host;
  if (borders.back() != call.gradients.size()) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("the shards of the call have {} gradients, but the call has {}; give the "
                        "gradients of all shards, shard by shard",
                        borders.back(), call.gradients.size())};
  }
  const std::size_t first = borders[transport_.rank()];
  results_ = {.first = first, .count = borders[transport_.rank() + 1] - first};
  return {};
}

Status DeviceAllReduce::enqueue(const AllReduceCall& call, std::span<const std::size_t> shards,
                                cudaStream_t stream) {
  NF_RETURN_IF_ERROR(transport_.health());
  NF_RETURN_IF_ERROR(check_call(call, shards));
  if (transport_.ranks() == 1 || call.gradients.empty()) return {};
  return feedback_ == nullptr ? sum(call, {}, stream) : sum_with_feedback(call, stream);
}

Status DeviceAllReduce::enqueue_parts(const AllReduceCall& call,
                                      std::span<const std::uint64_t> firsts, cudaStream_t stream) {
  NF_RETURN_IF_ERROR(transport_.health());
  NF_RETURN_IF_ERROR(check_call(call, {}));
  if (transport_.ranks() == 1 || call.gradients.empty()) return {};
  return sum(call, firsts, stream);
}

Status DeviceAllReduce::sum_with_feedback(const AllReduceCall& call, cudaStream_t stream) {
  Status status = feedback_->begin(call, stream);
  // The rank encodes its own shard only if messages merge.
  if (status.ok() && scatters() && !merges()) {
    status = feedback_->clear_residuals(results_, stream);
  }
  if (status.ok()) {
    AllReduceCall own = call;
    own.gradients = feedback_->copies();
    status = sum(own, {}, stream);
  }
  if (status.ok()) {
    status = scatters() ? feedback_->end_shard(results_, stream) : feedback_->end(stream);
    if (!status.ok()) transport_.abort(status);
  }
  const Status recorded = feedback_->used(stream);
  return status.ok() ? recorded : status;
}

Expected<DeviceLayout*> DeviceAllReduce::layout_of(const AllReduceCall& call,
                                                   std::span<const std::uint64_t> firsts,
                                                   cudaStream_t stream) {
  const std::span<const Gradient> gradients = call.gradients;
  const std::span<const std::size_t> borders = borders_.by_host;
  if (DeviceLayout* cached = layouts_.find(call.step, [&](const DeviceLayout& layout) {
        return layout.key().is_of(gradients, firsts, borders);
      })) {
    NF_RETURN_IF_ERROR(cached->move_to(gradients, stream));
    return cached;
  }
  Expected<std::unique_ptr<DeviceLayout>> made =
      DeviceLayout::create({.codec = *codec_,
                            .order = hop_plan_.order(),
                            .gradients = gradients,
                            .firsts = firsts,
                            .schedule = schedule_,
                            .borders = borders,
                            .tile_bytes = options_.tile_bytes,
                            .contributions = contributions_,
                            .finished = rounds_.finished,
                            .adds_to_values = adds_one_by_one_ && !merges(),
                            .merges_one_by_one = adds_one_by_one_ && merges()},
                           allocator_, stream);
  if (!made) return made.status();
  return layouts_.add(call.step, std::move(*made));
}

Status DeviceAllReduce::sum(const AllReduceCall& call, std::span<const std::uint64_t> firsts,
                            cudaStream_t stream) {
  const Expected<DeviceLayout*> found = layout_of(call, firsts, stream);
  if (!found) return found.status();
  const DeviceLayout& layout = **found;
  const DevicePlan& plan = layout.plan();
  const DeviceCodec& codec = *hop_codecs_.front();
  NF_RETURN_IF_ERROR(executor_.reserve(layout, stream));
  NF_RETURN_IF_ERROR(statistics_.reserve(plan, codec, stream));
  if (feedback_ != nullptr) NF_RETURN_IF_ERROR(feedback_->reserve(plan, stream));
  const CallDraws draws{.seed = options_.seed, .step = call.step};
  Status status = layout.values().copy_in(stream);
  if (status.ok()) status = statistics_.exchange(plan, draws, codec, stream);
  if (status.ok()) status = layout.plan().make(stream);
  if (status.ok() && feedback_ != nullptr) status = feedback_->set_plan(plan, stream);
  if (status.ok()) status = executor_.run(layout, draws, stream);
  if (status.ok()) status = layout.values().copy_out(results_, stream);
  if (!status.ok()) {
    static_cast<void>(executor_.wait_for_exchanges(stream));
    transport_.abort(status);
  }
  return status;
}

Traffic DeviceAllReduce::traffic() const {
  return {.statistics = statistics_.bytes_sent(),
          .payload = executor_.bytes_sent(),
          .sums = executor_.sum_bytes_sent()};
}

std::size_t DeviceAllReduce::memory() const {
  std::size_t bytes = executor_.memory() + statistics_.memory();
  bytes += layouts_.sum([](const DeviceLayout& layout) { return layout.memory(); });
  if (feedback_ != nullptr) bytes += feedback_->memory();
  return bytes;
}

}  // namespace nf::cuda
