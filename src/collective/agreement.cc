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

constexpr std::uint32_t kVersion = 6;

std::size_t hashes_of(const CallDescription& call) {
  return std::min<std::size_t>(call.parts, CallDescription::kMaxHashes);
}

// Where the hash of a part begins in the codec field.
std::size_t hash_offset(const CallDescription& call, std::size_t part) {
  return call.codec.size() - sizeof(std::uint16_t) * (part + 1);
}

std::size_t text_room(const CallDescription& call) {
  return call.codec.size() - sizeof(std::uint16_t) * hashes_of(call);
}

std::string_view codec_of(const CallDescription& call) {
  return {call.codec.data(), strnlen(call.codec.data(), text_room(call))};
}

// The codec of the first part whose parameters differ, if that is known. Precondition: the codecs
// are equal.
std::string_view differing_codec(const CallDescription& a, const CallDescription& b) {
  std::string_view codecs = codec_of(a);
  for (std::size_t part = 0; part < hashes_of(a); ++part) {
    const std::string_view codec = codecs.substr(0, codecs.find(','));
    const std::size_t at = hash_offset(a, part);
    if (a.codec[at] != b.codec[at] || a.codec[at + 1] != b.codec[at + 1]) return codec;
    codecs.remove_prefix(std::min(codec.size() + 1, codecs.size()));
  }
  return {};
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
  const bool has_parts = a.parts > 0 || b.parts > 0;
  if (a.parts != b.parts || codec_of(a) != codec_of(b))
    return describe(has_parts ? "codecs" : "codec", codec_of(a), codec_of(b));
  const std::string_view codec = differing_codec(a, b);
  if (a.values != b.values) {
    return describe("value count", a.values, b.values) +
           (codec.empty() ? "" : fmt::format("; the parameters of {} differ", codec));
  }
  if (a.topology != b.topology) return describe("topology", topology(a), topology(b));
  if (a.host_group_size != b.host_group_size)
    return describe("host group size", a.host_group_size, b.host_group_size);
  if (a.seed != b.seed) return describe("seed", a.seed, b.seed);
  if (a.epoch != b.epoch) return describe("epoch", a.epoch, b.epoch);
  if (a.step != b.step) return describe("step", a.step, b.step);
  if (a.tile_bytes != b.tile_bytes) return describe("tile size", a.tile_bytes, b.tile_bytes);
  if (a.sum != b.sum)
    return fmt::format("rank {} is in powersgd sum {}, rank {} in {}", rank_a, a.sum, rank_b,
                       b.sum);
  if (a.layout == b.layout && a.history != b.history) {
    return fmt::format(
        "ranks {} and {} have different RMS histories; load the same checkpoint on all ranks",
        rank_a, rank_b);
  }
  return fmt::format(
      "ranks {} and {} have {} values each, but their {}{} differ in name, shape or type", rank_a,
      rank_b, a.values,
      a.collective == static_cast<std::uint8_t>(Collective::kReduceScatter)
          ? "shards differ in number, or their parameters"
          : "parameters",
      codec.empty() ? "" : fmt::format(" of {}", codec));
}

std::uint64_t layout_of(const DescribedPart& part, Collective collective) {
  std::uint64_t layout = 0;
  for (const Gradient& gradient : part.gradients) {
    const std::uint64_t facts[] = {gradient.parameter, gradient.values.count, gradient.rows,
                                   static_cast<std::uint64_t>(gradient.values.type)};
    layout = checksum(std::as_bytes(std::span(facts)), layout);
  }
  if (collective == Collective::kReduceScatter) {
    layout = checksum(std::as_bytes(part.shards), layout);
  }
  return layout;
}

}  // namespace

CallDescription describe_call(const AllReduceOptions& options, const AllReduceCall& call,
                              Collective collective, std::span<const DescribedPart> parts) {
  CallDescription description{.seed = options.seed,
                              .step = call.step,
                              .epoch = call.epoch,
                              .tile_bytes = options.tile_bytes,
                              .topology = static_cast<std::uint8_t>(options.topology),
                              .collective = static_cast<std::uint8_t>(collective),
                              .host_group_size = options.host_group_size};
  const bool has_parts = parts.size() > 1;
  if (has_parts) {
    description.parts = static_cast<std::uint8_t>(std::min<std::size_t>(parts.size(), 255));
  }
  std::size_t length = 0;
  const auto append = [&](std::string_view text) {
    const std::size_t copied = std::min(text.size(), text_room(description) - length);
    std::copy_n(text.begin(), copied,
                description.codec.begin() + static_cast<std::ptrdiff_t>(length));
    length += copied;
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    append(i == 0 ? "" : ",");
    append(parts[i].codec);
    for (const Gradient& gradient : parts[i].gradients) description.values += gradient.values.count;
    const std::uint64_t histories[] = {description.history, parts[i].history};
    if (parts[i].history != 0) description.history = checksum(std::as_bytes(std::span(histories)));
    const std::uint64_t layout = layout_of(parts[i], collective);
    if (!has_parts) {
      description.layout = layout;
      continue;
    }
    const std::uint64_t codec = checksum(parts[i].codec);
    const std::uint64_t chained[] = {description.layout, codec, layout};
    description.layout = checksum(std::as_bytes(std::span(chained)));
    if (i >= hashes_of(description)) continue;
    const auto hash = static_cast<std::uint16_t>(layout);
    std::memcpy(description.codec.data() + hash_offset(description, i), &hash, sizeof hash);
  }
  return description;
}

CallDescription describe_call(std::string_view codec, const AllReduceOptions& options,
                              const AllReduceCall& call, std::uint8_t sum) {
  const DescribedPart part{.codec = codec, .gradients = call.gradients};
  CallDescription description =
      describe_call(options, call, Collective::kAllReduce, std::span(&part, 1));
  description.sum = sum;
  return description;
}

Agreement::Agreement(Transport& transport, const CallDescription& own, const LossScale& scale)
    : transport_(transport) {
  static_assert(std::has_unique_object_representations_v<Digest>, "it is sent as is");
  static_assert(std::has_unique_object_representations_v<Summary>, "it is sent as is");
  Digest& digest = digests_.own;
  digest.version = kVersion;
  digest.hash = checksum(std::as_bytes(std::span(&own, 1)));
  digest.scale_version = scale.version;
  digest.scales[0] = digest.scales[1] = std::bit_cast<std::uint32_t>(scale.value);
  digest.scale_ranks[0] = digest.scale_ranks[1] = transport.rank();
  Summary& summary = summaries_.own;
  summary.version = kVersion;
  summary.ranks[0] = summary.ranks[1] = transport.rank();
  summary.calls[0] = summary.calls[1] = own;
}

LossScale Agreement::loss_scale() const {
  return {.value = std::bit_cast<float>(digests_.own.scales[0]),
          .version = digests_.own.scale_version};
}

std::uint32_t Agreement::rounds(std::uint32_t ranks) {
  return static_cast<std::uint32_t>(std::bit_width(std::max(ranks, 1u) - 1));
}

std::uint64_t Agreement::bytes_to_send(std::uint32_t ranks) {
  return std::uint64_t{rounds(ranks)} * sizeof(Digest);
}

template <typename Message>
std::uint64_t Agreement::checksum_of(const Message& message) {
  return checksum(std::as_bytes(std::span(&message, 1)).first(offsetof(Message, checksum)));
}

template <typename Message>
Status Agreement::start_round(Merged<Message>& merged) {
  const std::uint32_t ranks = transport_.ranks();
  merged.outgoing = merged.own;
  merged.outgoing.checksum = checksum_of(merged.outgoing);
  send_ = {.peer = (transport_.rank() + distance_) % ranks,
           .bytes = std::as_writable_bytes(std::span(&merged.outgoing, 1))};
  receive_ = {.peer = (transport_.rank() + ranks - distance_) % ranks,
              .bytes = std::as_writable_bytes(std::span(&merged.incoming, 1))};
  NF_RETURN_IF_ERROR(transport_.receive(receive_));
  NF_RETURN_IF_ERROR(transport_.send(send_));
  bytes_sent_ += sizeof(Message);
  is_started_ = true;
  return {};
}

template <typename Message>
Status Agreement::check_incoming(const Merged<Message>& merged) const {
  const Message& incoming = merged.incoming;
  if (receive_.size != sizeof incoming || incoming.magic != merged.own.magic ||
      incoming.version != kVersion) {
    return {ErrorCode::kForeignFrame,
            fmt::format("rank {} runs another version or did not send its call description",
                        receive_.peer)};
  }
  if (incoming.checksum != checksum_of(incoming)) {
    return {ErrorCode::kCorruptFrame,
            fmt::format("rank {}'s call description is corrupt", receive_.peer)};
  }
  return {};
}

template <typename Message>
Expected<bool> Agreement::run_rounds(Merged<Message>& merged) {
  while (distance_ < transport_.ranks()) {
    if (!is_started_) NF_RETURN_IF_ERROR(start_round(merged));
    if (!send_.is_done || !receive_.is_done) return false;
    NF_RETURN_IF_ERROR(check_incoming(merged));
    merge(merged.own, merged.incoming);
    distance_ *= 2;
    is_started_ = false;
  }
  return true;
}

void Agreement::merge(Digest& own, const Digest& incoming) {
  if (incoming.differ != 0 || incoming.hash != own.hash) own.differ = 1;
  merge_scales(own, incoming);
}

void Agreement::merge(Summary& own, const Summary& incoming) {
  if (own.differ != 0) return;
  if (incoming.differ != 0) {
    own = incoming;
  } else if (incoming.calls[0] != own.calls[0]) {
    own.differ = 1;
    const int other = incoming.ranks[0] < own.ranks[0] ? 0 : 1;
    if (other == 0) {
      own.ranks[1] = own.ranks[0];
      own.calls[1] = own.calls[0];
    }
    own.ranks[other] = incoming.ranks[0];
    own.calls[other] = incoming.calls[0];
  }
}

// A higher version replaces the scales of a lower one, even if those differ.
void Agreement::merge_scales(Digest& own, const Digest& incoming) {
  if (incoming.scale_version < own.scale_version) return;
  if (incoming.scale_version > own.scale_version) {
    own.scale_version = incoming.scale_version;
    std::ranges::copy(incoming.scales, own.scales);
    std::ranges::copy(incoming.scale_ranks, own.scale_ranks);
    return;
  }
  for (const int i : {0, 1}) {
    if (own.scales[0] != own.scales[1]) return;
    if (incoming.scales[i] == own.scales[0]) continue;
    const int other = incoming.scale_ranks[i] < own.scale_ranks[0] ? 0 : 1;
    own.scale_ranks[1 - other] = own.scale_ranks[0];
    own.scale_ranks[other] = incoming.scale_ranks[i];
    own.scales[other] = incoming.scales[i];
  }
}

Status Agreement::check_scales() const {
  const Digest& digest = digests_.own;
  if (digest.scales[0] == digest.scales[1]) return {};
  return {ErrorCode::kDisagreement,
          fmt::format("rank {} has loss scale {}, rank {} has {}", digest.scale_ranks[0],
                      std::bit_cast<float>(digest.scales[0]), digest.scale_ranks[1],
                      std::bit_cast<float>(digest.scales[1]))};
}

Expected<bool> Agreement::advance() {
  if (!is_describing_) {
    Expected<bool> is_done = run_rounds(digests_);
    if (!is_done || !*is_done) return is_done;
    if (digests_.own.differ == 0) {
      NF_RETURN_IF_ERROR(check_scales());
      return true;
    }
    is_describing_ = true;
    distance_ = 1;
  }
  Expected<bool> is_done = run_rounds(summaries_);
  if (!is_done || !*is_done) return is_done;
  const Summary& summary = summaries_.own;
  if (summary.differ == 0) {
    return Status(ErrorCode::kCorruptFrame,
                  "the hashes of the ranks' call descriptions differ, but not the descriptions");
  }
  return Status(ErrorCode::kDisagreement,
                difference(summary.ranks[0], summary.calls[0], summary.ranks[1], summary.calls[1]));
}

std::string Agreement::waiting_for() const {
  return fmt::format(
      "rank {}'s call description{}", receive_.peer,
      send_.is_done ? "" : fmt::format(", and for rank {} to receive ours", send_.peer));
}

}  // namespace nf
