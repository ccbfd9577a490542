#include "neuron_fabric/codec.h"

#include <fmt/format.h>

#include <array>

namespace nf {
namespace {

// Larger than any parameter, and small enough that sums of sizes do not overflow.
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 48;
// Contribution counts up to this are exact in FP32.
constexpr std::uint32_t kMaxRanks = 1u << 24;

Status mismatch(std::string_view what, std::size_t actual, std::size_t expected) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{} is {}, expected {}", what, actual, expected)};
}

}  // namespace

std::string_view to_string(CodecKind kind) {
  switch (kind) {
    case CodecKind::kDense: return "dense";
    case CodecKind::kCounting: return "counting";
    case CodecKind::kMerging: return "merging";
    case CodecKind::kRequantising: return "requantising";
    case CodecKind::kSparse: return "sparse";
  }
  return "unknown";
}

std::string_view to_string(SumShape shape) {
  switch (shape) {
    case SumShape::kChain: return "chain";
    case SumShape::kTree: return "tree";
    case SumShape::kStar: return "star";
  }
  return "unknown";
}

std::uint32_t Codec::max_ranks() const { return kMaxRanks; }
bool Codec::is_unbiased(std::uint32_t /*encodes*/) const { return false; }

std::size_t Codec::statistics_size(std::size_t /*count*/) const { return 0; }
std::size_t Codec::width_count(std::size_t /*count*/) const { return 0; }
std::uint8_t Codec::max_width() const { return 0; }
std::size_t Codec::granule_size(std::uint8_t /*width*/) const { return 0; }
bool Codec::keeps_residual() const { return false; }
bool Codec::uses_rms_history() const { return false; }
std::vector<Hop> Codec::hops(SumOrder /*order*/) const { return {}; }

std::size_t Codec::payload_capacity(std::span<const std::size_t> counts) const {
  std::size_t sum = 0;
  for (const std::size_t count : counts) sum += encoded_size(Slice{.count = count}, 1);
  return sum;
}

void Codec::do_statistics(ConstValues /*values*/, std::span<std::byte> /*out*/) const {}

Status Codec::do_combine_statistics(std::size_t /*count*/,
                                    std::span<const std::span<const std::byte>> /*by_rank*/,
                                    std::span<std::byte> /*combined*/) const {
  return {};
}

Status Codec::do_choose_widths(std::span<const WidthRequest> /*parameters*/, SumOrder /*order*/,
                               std::size_t /*capacity*/) const {
  return {};
}

bool Codec::is_width(std::uint8_t /*width*/) const { return true; }

Status Codec::do_validate(const Slice& /*slice*/, Origin /*origin*/,
                          const std::byte* /*wire*/) const {
  return {};
}

void Codec::do_merge(const Slice& /*slice*/, Origin /*first*/, const std::byte* /*first_wire*/,
                     Origin /*second*/, const std::byte* /*second_wire*/, std::uint32_t /*encoder*/,
                     std::byte* /*out*/) const {}

Status Codec::statistics(ConstValues values, std::span<std::byte> out) const {
  if (out.size() != statistics_size(values.count)) {
    return mismatch("size of statistics", out.size(), statistics_size(values.count));
  }
  do_statistics(values, out);
  return {};
}

Status Codec::combine_statistics(std::size_t count,
                                 std::span<const std::span<const std::byte>> by_rank,
                                 std::span<std::byte> combined) const {
  const std::size_t size = statistics_size(count);
  if (by_rank.empty()) return {ErrorCode::kInvalidArgument, "no statistics to combine"};
  NF_RETURN_IF_ERROR(check_ranks(by_rank.size()));
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank].size() != size) {
      return mismatch(fmt::format("size of rank {}'s statistics", rank), by_rank[rank].size(),
                      size);
    }
  }
  if (combined.size() != size)
    return mismatch("size of combined statistics", combined.size(), size);
  return do_combine_statistics(count, by_rank, combined);
}

Status Codec::choose_widths(std::span<const WidthRequest> parameters, SumOrder order) const {
  std::vector<std::size_t> counts;
  for (const WidthRequest& request : parameters) counts.push_back(request.count);
  return choose_widths(parameters, order, payload_capacity(counts));
}

Status Codec::choose_widths(std::span<const WidthRequest> parameters, SumOrder order,
                            std::size_t capacity) const {
  if (order.ranks == 0) return {ErrorCode::kInvalidArgument, "cannot choose widths for 0 ranks"};
  for (const WidthRequest& request : parameters) {
    if (request.statistics.size() != statistics_size(request.count)) {
      return mismatch("size of combined statistics", request.statistics.size(),
                      statistics_size(request.count));
    }
    if (request.widths.size() != width_count(request.count)) {
      return mismatch("number of widths", request.widths.size(), width_count(request.count));
    }
  }
  return do_choose_widths(parameters, order, capacity);
}

Status Codec::check_ranks(std::size_t ranks) const {
  if (ranks <= max_ranks()) return {};
  return {ErrorCode::kInvalidArgument,
          fmt::format("{} ranks exceed this codec's maximum of {}", ranks, max_ranks())};
}

Status Codec::check_slice(const Slice& slice, std::uint32_t contributions,
                          std::size_t count) const {
  if (count != slice.count) return mismatch("number of values", count, slice.count);
  if (slice.first % granule() != 0) {
    return {
        ErrorCode::kInvalidArgument,
        fmt::format("slice starts at element {}, not a multiple of {}", slice.first, granule())};
  }
  if (contributions == 0 || contributions > slice.ranks) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("message of {} contributions in a sum of {} ranks", contributions,
                        slice.ranks)};
  }
  NF_RETURN_IF_ERROR(check_ranks(slice.ranks));
  if (slice.first > kMaxElements || slice.count > kMaxElements) {
    return {ErrorCode::kInvalidArgument, "slice exceeds 2^48 elements"};
  }
  const std::size_t end = static_cast<std::size_t>(slice.first) + slice.count;
  if (slice.statistics.size() < statistics_size(end)) {
    return mismatch("size of the parameter's statistics", slice.statistics.size(),
                    statistics_size(end));
  }
  if (slice.widths.size() < width_count(end)) {
    return mismatch("number of the parameter's widths", slice.widths.size(), width_count(end));
  }
  const std::size_t before = width_count(static_cast<std::size_t>(slice.first));
  std::array<bool, 256> is_known{};  // is_width() is called once per width
  for (const std::uint8_t width : slice.widths.subspan(before, width_count(end) - before)) {
    if (is_known[width]) continue;
    if (!is_width(width)) {
      return {ErrorCode::kInvalidArgument, fmt::format("{} is not a width of this codec", width)};
    }
    is_known[width] = true;
  }
  return {};
}

Status Codec::check_message(const Slice& slice, Origin origin, std::span<const std::byte> wire,
                            std::size_t count) const {
  NF_RETURN_IF_ERROR(check_slice(slice, origin.contributions, count));
  const std::size_t expected = encoded_size(slice, origin.contributions);
  if (wire.size() != expected) return mismatch("size of the message", wire.size(), expected);
  return do_validate(slice, origin, wire.data());
}

Status Codec::encode(const Slice& slice, Origin origin, ConstValues values,
                     std::span<std::byte> wire) const {
  NF_RETURN_IF_ERROR(check_slice(slice, origin.contributions, values.count));
  if (merges_messages(kind()) && origin.contributions != 1) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("codec '{}' encodes the values of one rank, not a sum of {} ranks",
                        spec_.name, origin.contributions)};
  }
  const std::size_t expected = encoded_size(slice, origin.contributions);
  if (wire.size() != expected) return mismatch("size of the message", wire.size(), expected);
  if (slice.count > 0) do_encode(slice, origin, values, wire.data());
  return {};
}

Status Codec::decode(const Slice& slice, Origin origin, std::span<const std::byte> wire,
                     Values values) const {
  NF_RETURN_IF_ERROR(check_message(slice, origin, wire, values.count));
  if (slice.count > 0) do_decode(slice, origin, wire.data(), values);
  return {};
}

Status Codec::decode_add(const Slice& slice, Origin origin, std::span<const std::byte> wire,
                         Values values) const {
  NF_RETURN_IF_ERROR(check_message(slice, origin, wire, values.count));
  if (slice.count > 0) do_decode_add(slice, origin, wire.data(), values);
  return {};
}

Status Codec::decode_add_encode(const Slice& slice, Origin origin, std::span<const std::byte> wire,
                                ConstValues values, Origin total, std::span<std::byte> out) const {
  NF_RETURN_IF_ERROR(check_message(slice, origin, wire, values.count));
  NF_RETURN_IF_ERROR(check_slice(slice, total.contributions, values.count));
  const bool adds_one = total.contributions == origin.contributions + 1;
  if (total.contributions <= origin.contributions || (merges_messages(kind()) && !adds_one)) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("codec '{}' cannot extend a message of {} contributions to one of {}",
                        spec_.name, origin.contributions, total.contributions)};
  }
  const std::size_t expected = encoded_size(slice, total.contributions);
  if (out.size() != expected) return mismatch("size of the outgoing message", out.size(), expected);
  if (slice.count > 0) do_decode_add_encode(slice, origin, wire.data(), values, total, out.data());
  return {};
}

Status Codec::merge(const Slice& slice, Origin first, std::span<const std::byte> first_wire,
                    Origin second, std::span<const std::byte> second_wire, std::uint32_t encoder,
                    std::span<std::byte> out) const {
  if (!merges_messages(kind())) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("codec '{}' cannot merge messages: its kind is {}", spec_.name,
                        to_string(kind()))};
  }
  NF_RETURN_IF_ERROR(check_message(slice, first, first_wire, slice.count));
  NF_RETURN_IF_ERROR(check_message(slice, second, second_wire, slice.count));
  // Each is at most slice.ranks, so their sum does not overflow.
  const std::uint32_t contributions = first.contributions + second.contributions;
  NF_RETURN_IF_ERROR(check_slice(slice, contributions, slice.count));
  const std::size_t expected = encoded_size(slice, contributions);
  if (out.size() != expected) return mismatch("size of the outgoing message", out.size(), expected);
  if (slice.count > 0) {
    do_merge(slice, first, first_wire.data(), second, second_wire.data(), encoder, out.data());
  }
  return {};
}

}  // namespace nf
