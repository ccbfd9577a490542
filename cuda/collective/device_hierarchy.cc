#include "cuda/collective/device_hierarchy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collective/exchange_part.h"
#include "collective/host_groups.h"
#include "cuda/base/launch.h"

namespace nf::cuda {
namespace {

DeviceAllReduceOptions between_groups(const DeviceAllReduceOptions& options) {
  DeviceAllReduceOptions own = options;
  own.topology = Topology::kRing;
  own.host_group_size = 0;
  return own;
}

}  // namespace

Status DeviceHierarchy::check(const DeviceAllReduceOptions& options, std::uint32_t ranks) {
  if (options.collective != Collective::kAllReduce) {
    return {
        ErrorCode::kUnsupported,
        fmt::format("{} over topology 'hierarchical' has no CUDA form; choose topology 'direct' "
                    "or 'ring'",
                    to_string(options.collective))};
  }
  const Expected<std::unique_ptr<Codec>> codec = make_codec(options.codec);
  if (!codec) return codec.status();
  NF_RETURN_IF_ERROR(ExchangePart::check(**codec,
                                         {.codec = options.codec,
                                          .topology = options.topology,
                                          .host_group_size = options.host_group_size},
                                         ranks));
  if ((*codec)->keeps_residual()) {
    return {ErrorCode::kUnsupported, "error feedback (+ef) has no hierarchical CUDA form"};
  }
  return DeviceAllReduce::check(between_groups(options), ranks / options.host_group_size);
}

Expected<std::unique_ptr<DeviceCollective>> DeviceHierarchy::create(
    StreamTransport& transport, const DeviceAllReduceOptions& options) {
  NF_RETURN_IF_ERROR(check(options, transport.ranks()));
  Expected<std::unique_ptr<Codec>> dense = make_codec("fp32");
  if (!dense) return dense.status();
  Expected<std::unique_ptr<DeviceCodec>> device_dense = make_device_codec(**dense);
  if (!device_dense) return device_dense.status();
  std::unique_ptr<DeviceHierarchy> sum(
      new DeviceHierarchy(transport, options, std::move(*dense), std::move(*device_dense)));
  Expected<std::unique_ptr<DeviceAllReduce>> between =
      DeviceAllReduce::create(sum->outer_, between_groups(options));
  if (!between) return between.status();
  sum->between_ = std::move(*between);
  return std::unique_ptr<DeviceCollective>(std::move(sum));
}

DeviceHierarchy::DeviceHierarchy(StreamTransport& transport, const DeviceAllReduceOptions& options,
                                 std::unique_ptr<Codec> dense,
                                 std::unique_ptr<DeviceCodec> device_dense)
    : transport_(transport),
      options_(options),
      allocator_(or_pool(options.allocator)),
      dense_(std::move(dense)),
      device_dense_(std::move(device_dense)),
      inner_(transport, host_group_of(transport.rank(), options.host_group_size)),
      outer_(transport,
             same_position(transport.rank(), options.host_group_size, transport.ranks())),
      sent_(allocator_),
      received_(allocator_) {
  const Schedule schedule = make_schedule(Topology::kDirect, inner_.ranks(), inner_.rank());
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::kReduceReceive) added_.push_back(step.peer);
  }
}

Expected<DeviceHierarchy::Layout*> DeviceHierarchy::layout_of(const AllReduceCall& call,
                                                              cudaStream_t stream) {
  if (Layout* known = layouts_.find(
          call.step, [&](const Layout& layout) { return layout.key.is_of(call.gradients); })) {
    known->values.move_to(call.gradients);
    NF_RETURN_IF_ERROR(known->parts->move_to(known->values.working(), stream));
    set_domain(*known);
    return known;
  }
  auto made = std::make_unique<Layout>(allocator_);
  NF_RETURN_IF_ERROR(prepare(*made, call.gradients, stream));
  return layouts_.add(call.step, std::move(made));
}

// Parts start at granules of the codec, so that they can be summed with those of other host groups.
Status DeviceHierarchy::prepare(Layout& layout, std::span<const Gradient> gradients,
                                cudaStream_t stream) {
  constexpr std::uint32_t kOne = 1;
  layout.key = LayoutKey(gradients);
  NF_RETURN_IF_ERROR(layout.values.make(gradients, true, stream));
  Expected<std::unique_ptr<DevicePlan>> parts =
      DevicePlan::create({.codec = *dense_,
                          .order = {.ranks = inner_.ranks()},
                          .gradients = layout.values.working(),
                          .chunks = inner_.ranks(),
                          .tile_bytes = options_.tile_bytes,
                          .contributions = {&kOne, 1},
                          .granule = between_->part()->granule()},
                         allocator_, stream);
  if (!parts) return parts.status();
  layout.parts = std::move(*parts);
  layout.message_at.push_back(0);
  for (std::uint32_t member = 0; member < inner_.ranks(); ++member) {
    std::size_t bytes = 0;
    for (std::uint32_t tile = 0; tile < layout.parts->chunks().tiles(member); ++tile) {
      bytes += aligned(layout.parts->message_size(member, tile, kOne));
    }
    layout.part_bytes.push_back(bytes);
    layout.message_at.push_back(layout.message_at.back() + bytes);
  }
  layout.parts->chunks().pieces_of(inner_.rank(), layout.pieces);
  for (const Piece& piece : layout.pieces) layout.firsts.push_back(piece.first);
  set_domain(layout);
  return {};
}

void DeviceHierarchy::set_domain(Layout& layout) {
  layout.domain.clear();
  for (const Piece& piece : layout.pieces) {
    const Gradient& whole = layout.values.working()[piece.parameter];
    auto* first = static_cast<float*>(whole.values.data) + piece.first;
    layout.domain.push_back(
        {.parameter = whole.parameter, .values = Values(first, piece.count, whole.values.type)});
  }
}

Status DeviceHierarchy::enqueue(const AllReduceCall& call, std::span<const std::size_t> /*shards*/,
                                cudaStream_t stream) {
  NF_RETURN_IF_ERROR(transport_.health());
  if (transport_.ranks() == 1 || call.gradients.empty()) return {};
  const Expected<Layout*> found = layout_of(call, stream);
  if (!found) return found.status();
  const Layout& layout = **found;
  const std::size_t own = layout.part_bytes[inner_.rank()];
  NF_RETURN_IF_ERROR(sent_.reserve(std::max<std::size_t>(layout.message_at.back(), 1), stream));
  NF_RETURN_IF_ERROR(received_.reserve(
      std::max({layout.message_at.back(), own * inner_.ranks(), std::size_t{1}}), stream));
  Status status = layout.values.copy_in(stream);
  if (status.ok()) status = reduce_inside(layout, stream);
  if (status.ok()) {
    status = between_->enqueue_parts({.step = call.step,
                                      .epoch = call.epoch,
                                      .gradients = layout.domain,
                                      .loss_scale = call.loss_scale},
                                     layout.firsts, stream);
  }
  if (status.ok()) status = gather_inside(layout, stream);
  const GradientRange all{.first = 0, .count = call.gradients.size()};
  if (status.ok()) status = layout.values.copy_out(all, stream);
  if (!status.ok()) transport_.abort(status);
  return status;
}

template <typename Work>
Status DeviceHierarchy::for_each_tile(const Layout& layout, std::uint32_t member, Work work) const {
  std::size_t at = 0;
  for (std::uint32_t tile = 0; tile < layout.parts->chunks().tiles(member); ++tile) {
    NF_RETURN_IF_ERROR(work(tile, at));
    at += aligned(layout.parts->message_size(member, tile, 1));
  }
  return {};
}

Status DeviceHierarchy::encode(const Layout& layout, std::uint32_t member, std::byte* message,
                               cudaStream_t stream) const {
  return for_each_tile(layout, member, [&](std::uint32_t tile, std::size_t at) {
    return device_dense_->encode(layout.parts->batch(member, tile),
                                 layout.parts->message(member, tile, {}, message + at), stream);
  });
}

Status DeviceHierarchy::reduce_inside(const Layout& layout, cudaStream_t stream) {
  const std::uint32_t rank = inner_.rank();
  const std::size_t own = layout.part_bytes[rank];
  sends_.clear();
  receives_.clear();
  for (std::uint32_t member = 0; member < inner_.ranks(); ++member) {
    if (member == rank) continue;
    std::byte* message = sent_.data() + layout.message_at[member];
    NF_RETURN_IF_ERROR(encode(layout, member, message, stream));
    sends_.push_back({member, message, layout.part_bytes[member]});
    receives_.push_back({member, received_.data() + member * own, own});
    traffic_.payload += sends_.back().size;
  }
  NF_RETURN_IF_ERROR(inner_.exchange(sends_, receives_, stream));
  for (const std::uint32_t member : added_) {
    const std::byte* message = received_.data() + member * own;
    NF_RETURN_IF_ERROR(for_each_tile(layout, rank, [&](std::uint32_t tile, std::size_t at) {
      return device_dense_->decode_add(layout.parts->batch(rank, tile),
                                       layout.parts->message(rank, tile, {}, message + at), stream);
    }));
  }
  return {};
}

Status DeviceHierarchy::gather_inside(const Layout& layout, cudaStream_t stream) {
  const std::uint32_t rank = inner_.rank();
  std::byte* own = sent_.data() + layout.message_at[rank];
  NF_RETURN_IF_ERROR(encode(layout, rank, own, stream));
  sends_.clear();
  receives_.clear();
  for (std::uint32_t member = 0; member < inner_.ranks(); ++member) {
    if (member == rank) continue;
    sends_.push_back({member, own, layout.part_bytes[rank]});
    receives_.push_back(
        {member, received_.data() + layout.message_at[member], layout.part_bytes[member]});
    traffic_.payload += sends_.back().size;
    traffic_.sums += sends_.back().size;
  }
  NF_RETURN_IF_ERROR(inner_.exchange(sends_, receives_, stream));
  for (const StreamTransfer& one : receives_) {
    const std::byte* message = one.bytes;
    NF_RETURN_IF_ERROR(for_each_tile(layout, one.peer, [&](std::uint32_t tile, std::size_t at) {
      return device_dense_->decode(layout.parts->batch(one.peer, tile),
                                   layout.parts->message(one.peer, tile, {}, message + at), stream);
    }));
  }
  return {};
}

Traffic DeviceHierarchy::traffic() const {
  Traffic all = between_->traffic();
  all.payload += traffic_.payload;
  all.sums += traffic_.sums;
  return all;
}

std::size_t DeviceHierarchy::memory() const {
  return between_->memory() + sent_.size() + received_.size() +
         layouts_.sum(
             [](const Layout& layout) { return layout.values.memory() + layout.parts->memory(); });
}

}  // namespace nf::cuda
