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
  const auto say = [&](std::string_view what, const auto& left, const auto& right) {
    return fmt::format("rank {} has {} {}, rank {} has {}", rank_a, what, left, rank_b, right);
  };
  const auto topology = [](const CallDescription& call) {
    return to_string(static_cast<Topology>(call.topology));
  };
  if (a.codec != b.codec) return say("codec", codec_of(a), codec_of(b));
  if (a.values != b.values) return say("a count of", a.values, b.values);
  if (a.topology != b.topology) return say("topology", topology(a), topology(b));
  if (a.host_group_size != b.host_group_size)
    return say("groups of", a.host_group_size, b.host_group_size);
  if (a.seed != b.seed) return say("seed", a.seed, b.seed);
  if (a.epoch != b.epoch) return say("epoch", a.epoch, b.epoch);
  if (a.step != b.step) return say("step", a.step, b.step);
  if (a.tile_bytes != b.tile_bytes) return say("tiles of", a.tile_bytes, b.tile_bytes);
  if (a.part != b.part) return say("part", a.part, b.part);
  return fmt::format(
      "ranks {} and {} have {} values each, but in parameters of other names, shapes or types",
      rank_a, rank_b, a.values);
}

}  // namespace

CallDescription describe_call(std::string_view codec, const AllReduceOptions& options,
                              const AllReduceCall& call, std::uint16_t part) {
  CallDescription description{.seed = options.seed,
                              .step = call.step,
                              .epoch = call.epoch,
                              .tile_bytes = options.tile_bytes,
                              .topology = static_cast<std::uint16_t>(options.topology),
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

Agreement::Agreement(Transport& transport, const CallDescription& own, const LossScale& scale)
    : transport_(transport) {
  static_assert(std::has_unique_object_representations_v<Knowledge>, "it travels as it is");
  known_.magic = kMagic;
  known_.version = kVersion;
  known_.ranks[0] = known_.ranks[1] = transport.rank();
  known_.calls[0] = known_.calls[1] = own;
  known_.scale_version = scale.version;
  known_.scales[0] = known_.scales[1] = std::bit_cast<std::uint32_t>(scale.value);
  known_.scale_ranks[0] = known_.scale_ranks[1] = transport.rank();
}

LossScale Agreement::loss_scale() const {
  return {.value = std::bit_cast<float>(known_.scales[0]), .version = known_.scale_version};
}

std::uint32_t Agreement::rounds(std::uint32_t ranks) {
  return static_cast<std::uint32_t>(std::bit_width(std::max(ranks, 1u) - 1));
}

std::uint64_t Agreement::bytes_to_send(std::uint32_t ranks) {
  return std::uint64_t{rounds(ranks)} * sizeof(Knowledge);
}

std::uint64_t Agreement::checksum_of(const Knowledge& knowledge) {
  return checksum(std::as_bytes(std::span(&knowledge, 1)).first(offsetof(Knowledge, checksum)));
}

Status Agreement::start_round() {
  const std::uint32_t ranks = transport_.ranks();
  outgoing_ = known_;
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

Status Agreement::take() {
  if (receive_.size != sizeof incoming_ || incoming_.magic != kMagic ||
      incoming_.version != kVersion) {
    return {ErrorCode::kForeignFrame,
            fmt::format("rank {} runs another version, or sent something that is no description of "
                        "its call",
                        receive_.peer)};
  }
  if (incoming_.checksum != checksum_of(incoming_)) {
    return {ErrorCode::kCorruptFrame,
            fmt::format("what rank {} sent of its call was damaged on the way", receive_.peer)};
  }
  if (known_.differ != 0) return {};
  if (incoming_.differ != 0) {
    known_ = incoming_;
  } else if (incoming_.calls[0] != known_.calls[0]) {
    known_.differ = 1;
    const int other = incoming_.ranks[0] < known_.ranks[0] ? 0 : 1;
    if (other == 0) {
      known_.ranks[1] = known_.ranks[0];
      known_.calls[1] = known_.calls[0];
    }
    known_.ranks[other] = incoming_.ranks[0];
    known_.calls[other] = incoming_.calls[0];
  }
  take_scales();
  return {};
}

// A higher version replaces all that is known of a lower one, even two scales that differ.
void Agreement::take_scales() {
  if (incoming_.scale_version < known_.scale_version) return;
  if (incoming_.scale_version > known_.scale_version) {
    known_.scale_version = incoming_.scale_version;
    std::ranges::copy(incoming_.scales, known_.scales);
    std::ranges::copy(incoming_.scale_ranks, known_.scale_ranks);
    return;
  }
  for (const int i : {0, 1}) {
    if (known_.scales[0] != known_.scales[1]) return;
    if (incoming_.scales[i] == known_.scales[0]) continue;
    const int other = incoming_.scale_ranks[i] < known_.scale_ranks[0] ? 0 : 1;
    known_.scale_ranks[1 - other] = known_.scale_ranks[0];
    known_.scale_ranks[other] = incoming_.scale_ranks[i];
    known_.scales[other] = incoming_.scales[i];
  }
}

Status Agreement::verdict() const {
  if (known_.differ != 0) {
    return {ErrorCode::kDisagreement,
            difference(known_.ranks[0], known_.calls[0], known_.ranks[1], known_.calls[1])};
  }
  if (known_.scales[0] != known_.scales[1]) {
    return {ErrorCode::kDisagreement,
            fmt::format("rank {} has loss scale {}, rank {} has {}", known_.scale_ranks[0],
                        std::bit_cast<float>(known_.scales[0]), known_.scale_ranks[1],
                        std::bit_cast<float>(known_.scales[1]))};
  }
  return {};
}

Expected<bool> Agreement::advance() {
  while (distance_ < transport_.ranks()) {
    if (!is_started_) NF_RETURN_IF_ERROR(start_round());
    if (!send_.is_done || !receive_.is_done) return false;
    NF_RETURN_IF_ERROR(take());
    distance_ *= 2;
    is_started_ = false;
  }
  NF_RETURN_IF_ERROR(verdict());
  return true;
}

std::string Agreement::waiting_for() const {
  return fmt::format(
      "the description of its call from rank {}{}", receive_.peer,
      send_.is_done ? "" : fmt::format(", and for rank {} to take ours", send_.peer));
}

}  // namespace nf
