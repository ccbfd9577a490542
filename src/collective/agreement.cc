#include "collective/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/checksum.h"

namespace nf {
namespace {

constexpr std::uint32_t kMagic = 0x6772'666e;  // "nfrg"
constexpr std::uint32_t kVersion = 4;

std::string_view codec_of(const CallDescription& call) {
  return {call.codec.data(), strnlen(call.codec.data(), call.codec.size())};
}

// "rank 0 has seed 1, rank 2 has seed 7".
std::string difference(std::uint32_t rank_a, const CallDescription& a, std::uint32_t rank_b,
                       const CallDescription& b) {
  const auto describe = [&](std::string_view what, const auto& left, const auto& right) {
    return fmt::format("rank {} has {} {}, rank {} has {}", rank_a, what, left, rank_b, right);
  };
  const auto topology = [](const CallDescription& call) {
    return to_string(static_cast<Topology>(call.topology));
  };
  const auto collective = [](const CallDescription& call) {
    return to_string(static_cast<Collective>(call.collective));
  };
  if (a.collective != b.collective) return describe("collective", collective(a), collective(b));
  if (a.codec != b.codec) return describe("codec", codec_of(a), codec_of(b));
  if (a.values != b.values) return describe("value count", a.values, b.values);
  if (a.topology != b.topology) return describe("topology", topology(a), topology(b));
  if (a.host_group_size != b.host_group_size)
    return describe("host group size", a.host_group_size, b.host_group_size);
  if (a.seed != b.seed) return describe("seed", a.seed, b.seed);
  if (a.epoch != b.epoch) return describe("epoch", a.epoch, b.epoch);
  if (a.step != b.step) return describe("step", a.step, b.step);
  if (a.tile_bytes != b.tile_bytes) return describe("tile size", a.tile_bytes, b.tile_bytes);
  if (a.part != b.part)
    return fmt::format("rank {} is in powersgd sum {}, rank {} in {}", rank_a, a.part, rank_b,
                       b.part);
  return fmt::format(
      "ranks {} and {} have {} values each, but their {} differ in name, shape or type", rank_a,
      rank_b, a.values,
      a.collective == static_cast<std::uint8_t>(Collective::kReduceScatter)
          ? "shards differ in number, or their parameters"
          : "parameters");
}

}  // namespace

CallDescription describe_call(std::string_view codec, const AllReduceOptions& options,
                              const AllReduceCall& call, std::uint16_t part) {
  CallDescription description{.seed = options.seed,
                              .step = call.step,
                              .epoch = call.epoch,
                              .tile_bytes = options.tile_bytes,
                              .topology = static_cast<std::uint8_t>(options.topology),
                              .part = part,
                              .host_group_size = options.host_group_size};
  for (const Gradient& gradient : call.gradients) {
    const std::uint64_t facts[] = {gradient.parameter, gradient.values.count, gradient.rows,
                                   static_cast<std::uint64_t>(gradient.values.type)};
    description.layout = checksum(std::as_bytes(std::span(facts)), description.layout);
    description.values += gradient.values.count;
  }
  const std::size_t length = std::min(codec.size(), description.codec.size());
  std::copy_n(codec.begin(), length, description.codec.begin());
  return description;
}

CallDescription describe_call(std::string_view codec, const AllReduceOptions& options,
                              const AllReduceCall& call, std::span<const std::size_t> shards) {
  CallDescription description = describe_call(codec, options, call);
  description.collective = static_cast<std::uint8_t>(Collective::kReduceScatter);
  description.layout = checksum(std::as_bytes(shards), description.layout);
  return description;
}

Agreement::Agreement(Transport& transport, const CallDescription& own, const LossScale& scale)
    : transport_(transport) {
  static_assert(std::has_unique_object_representations_v<Summary>, "it is sent as is");
  summary_.magic = kMagic;
  summary_.version = kVersion;
  summary_.ranks[0] = summary_.ranks[1] = transport.rank();
  summary_.calls[0] = summary_.calls[1] = own;
  summary_.scale_version = scale.version;
  summary_.scales[0] = summary_.scales[1] = std::bit_cast<std::uint32_t>(scale.value);
  summary_.scale_ranks[0] = summary_.scale_ranks[1] = transport.rank();
}

LossScale Agreement::loss_scale() const {
  return {.value = std::bit_cast<float>(summary_.scales[0]), .version = summary_.scale_version};
}

std::uint32_t Agreement::rounds(std::uint32_t ranks) {
  return static_cast<std::uint32_t>(std::bit_width(std::max(ranks, 1u) - 1));
}

std::uint64_t Agreement::bytes_to_send(std::uint32_t ranks) {
  return std::uint64_t{rounds(ranks)} * sizeof(Summary);
}

std::uint64_t Agreement::checksum_of(const Summary& summary) {
  return checksum(std::as_bytes(std::span(&summary, 1)).first(offsetof(Summary, checksum)));
}

Status Agreement::start_round() {
  const std::uint32_t ranks = transport_.ranks();
  outgoing_ = summary_;
  outgoing_.checksum = checksum_of(outgoing_);
  send_ = {.peer = (transport_.rank() + distance_) % ranks,
           .bytes = std::as_writable_bytes(std::span(&outgoing_, 1))};
  receive_ = {.peer = (transport_.rank() + ranks - distance_) % ranks,
              .bytes = std::as_writable_bytes(std::span(&incoming_, 1))};
  NF_RETURN_IF_ERROR(transport_.receive(receive_));
  NF_RETURN_IF_ERROR(transport_.send(send_));
  bytes_sent_ += sizeof outgoing_;
  is_started_ = true;
  return {};
}

Status Agreement::merge_incoming() {
  if (receive_.size != sizeof incoming_ || incoming_.magic != kMagic ||
      incoming_.version != kVersion) {
    return {ErrorCode::kForeignFrame,
            fmt::format("rank {} runs another version or did not send its call description",
                        receive_.peer)};
  }
  if (incoming_.checksum != checksum_of(incoming_)) {
    return {ErrorCode::kCorruptFrame,
            fmt::format("rank {}'s call description is corrupt", receive_.peer)};
  }
  if (summary_.differ != 0) return {};
  if (incoming_.differ != 0) {
    summary_ = incoming_;
  } else if (incoming_.calls[0] != summary_.calls[0]) {
    summary_.differ = 1;
    const int other = incoming_.ranks[0] < summary_.ranks[0] ? 0 : 1;
    if (other == 0) {
      summary_.ranks[1] = summary_.ranks[0];
      summary_.calls[1] = summary_.calls[0];
    }
    summary_.ranks[other] = incoming_.ranks[0];
    summary_.calls[other] = incoming_.calls[0];
  }
  merge_scales();
  return {};
}

// A higher version replaces the scales of a lower one, even if those differ.
void Agreement::merge_scales() {
  if (incoming_.scale_version < summary_.scale_version) return;
  if (incoming_.scale_version > summary_.scale_version) {
    summary_.scale_version = incoming_.scale_version;
    std::ranges::copy(incoming_.scales, summary_.scales);
    std::ranges::copy(incoming_.scale_ranks, summary_.scale_ranks);
    return;
  }
  for (const int i : {0, 1}) {
    if (summary_.scales[0] != summary_.scales[1]) return;
    if (incoming_.scales[i] == summary_.scales[0]) continue;
    const int other = incoming_.scale_ranks[i] < summary_.scale_ranks[0] ? 0 : 1;
    summary_.scale_ranks[1 - other] = summary_.scale_ranks[0];
    summary_.scale_ranks[other] = incoming_.scale_ranks[i];
    summary_.scales[other] = incoming_.scales[i];
  }
}

Status Agreement::check_agreement() const {
  if (summary_.differ != 0) {
    return {ErrorCode::kDisagreement,
            difference(summary_.ranks[0], summary_.calls[0], summary_.ranks[1], summary_.calls[1])};
  }
  if (summary_.scales[0] != summary_.scales[1]) {
    return {ErrorCode::kDisagreement,
            fmt::format("rank {} has loss scale {}, rank {} has {}", summary_.scale_ranks[0],
                        std::bit_cast<float>(summary_.scales[0]), summary_.scale_ranks[1],
                        std::bit_cast<float>(summary_.scales[1]))};
  }
  return {};
}

Expected<bool> Agreement::advance() {
  while (distance_ < transport_.ranks()) {
    if (!is_started_) NF_RETURN_IF_ERROR(start_round());
    if (!send_.is_done || !receive_.is_done) return false;
    NF_RETURN_IF_ERROR(merge_incoming());
    distance_ *= 2;
    is_started_ = false;
  }
  NF_RETURN_IF_ERROR(check_agreement());
  return true;
}

std::string Agreement::waiting_for() const {
  return fmt::format(
      "rank {}'s call description{}", receive_.peer,
      send_.is_done ? "" : fmt::format(", and for rank {} to receive ours", send_.peer));
}

}  // namespace nf
