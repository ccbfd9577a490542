#include "codec/super_group_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "codec/wire_bytes.h"

namespace nf {
namespace {

constexpr std::size_t kPacks = kSuperGroup / kPack;

std::size_t first_group(const Slice& slice) {
  return static_cast<std::size_t>(slice.first / kSuperGroup);
}

bool is_whole(Run run) { return run.values == run.blocks * kSuperGroup; }

}  // namespace

SuperGroupCodec::SuperGroupCodec(const CodecSpec& spec, SuperGroupFormat format, Isa isa)
    : BlockCodec(spec, kSuperGroup, isa), format_(format), statistics_(super_group_kernels(isa)) {}

std::size_t SuperGroupCodec::statistics_size(std::size_t count) const {
  return format_.has_statistics ? super_groups_of(count) * kSuperGroupStatistics : 0;
}

std::size_t SuperGroupCodec::width_count(std::size_t count) const {
  return format_.width != 0 ? 0 : super_groups_of(count);
}

std::uint8_t SuperGroupCodec::max_width() const {
  return static_cast<std::uint8_t>(format_.width != 0 ? 0 : format_.max_width);
}

std::size_t SuperGroupCodec::granule_size(std::uint8_t width) const {
  if (format_.width != 0 || width == 0) return 0;
  return 2 + scales_of(kSuperGroup) + kPacks * pack_bytes(width);
}

std::size_t SuperGroupCodec::payload_capacity(std::span<const std::size_t> counts) const {
  std::size_t values = 0;
  std::size_t statistics = 0;
  std::size_t min_size = 0;
  for (const std::size_t count : counts) {
    values += count;
    statistics += statistics_size(count);
    min_size += layout(count, format_.width != 0 ? format_.width : format_.min_width).size();
  }
  const auto budget = static_cast<std::size_t>(format_.budget * static_cast<double>(values) / 8);
  return budget > statistics + min_size ? budget - statistics : min_size;
}

std::size_t SuperGroupCodec::encoded_size(const Slice& slice,
                                          std::uint32_t /*contributions*/) const {
  return layout(slice).size();
}

// The layout of `count` values of one width.
SuperGroupCodec::Layout SuperGroupCodec::layout(std::size_t count, unsigned width) const {
  if (width == 0) return {};
  return {.units = 2 * super_groups_of(count),
          .scales = scales_of(count),
          .codes = coded_packs(count) * pack_bytes(width)};
}

SuperGroupCodec::Layout SuperGroupCodec::layout(const Slice& slice) const {
  if (format_.width != 0) return layout(slice.count, format_.width);
  const std::size_t whole = slice.count / kSuperGroup;
  const auto widths = slice.widths.subspan(first_group(slice));
  std::size_t bits = 0;
  std::size_t sent = 0;
  for (const std::uint8_t width : widths.first(whole)) {  // a simple loop that vectorises
    bits += width;
    sent += width != 0 ? 1 : 0;
  }
  const std::size_t rest = slice.count % kSuperGroup;
  const Layout last = rest == 0 ? Layout{} : layout(rest, widths[whole]);
  return {.units = 2 * sent + last.units,
          .scales = sent * scales_of(kSuperGroup) + last.scales,
          .codes = kPacks * pack_bytes(1) * bits + last.codes};
}

void SuperGroupCodec::clear_padding(const Slice& slice, std::byte* wire) const {
  const Layout arrays = layout(slice);
  const std::size_t used = arrays.units + arrays.scales;
  if (arrays.codes_at() > used) std::memset(wire + used, 0, arrays.codes_at() - used);
}

SuperGroups SuperGroupCodec::super_groups(const Slice& slice, Run run) const {
  const std::size_t first = first_group(slice) + run.block;
  return {.count = run.blocks,
          .first = first,
          .statistics = format_.has_statistics
                            ? slice.statistics.data() + first * kSuperGroupStatistics
                            : nullptr,
          .widths = format_.width != 0 ? nullptr : slice.widths.data() + first,
          .width = format_.width,
          .ranks = slice.ranks};
}

// Finds the position of a run in a message. Runs must be passed in order.
template <typename Byte>
class SuperGroupCodec::Cursor {
 public:
  Cursor(const SuperGroupCodec& codec, const Slice& slice, Byte* wire)
      : groups_(codec.super_groups(slice, Run{})), scales_per_block_(codec.scales_of(kSuperGroup)) {
    const Layout arrays = codec.layout(slice);
    at_ = {.units = wire, .scales = wire + arrays.units, .codes = wire + arrays.codes_at()};
  }

  SuperGroupWire<Byte> at(Run run) {
    for (; block_ < run.block; ++block_) {
      const unsigned width = groups_.width_of(block_);
      if (width == 0) continue;
      at_.units += 2;
      at_.scales += scales_per_block_;
      at_.codes += kPacks * pack_bytes(width);
    }
    return at_;
  }

 private:
  const SuperGroups groups_;
  const std::size_t scales_per_block_;
  SuperGroupWire<Byte> at_;
  std::size_t block_ = 0;
};

void SuperGroupCodec::encode_run(const Slice& slice, Origin origin, Run run, const float* from,
                                 Out at) const {
  const SuperGroups groups = super_groups(slice, run);
  if (is_whole(run)) {
    encode_groups(slice, origin, groups, from, at);
    return;
  }
  if (groups.width_of(0) == 0) return;
  // Pad with the mean: it is zero after centring and raises no peak.
  const float mean = static_cast<float>(origin.contributions) * groups.mean_of(0);
  float padded[kSuperGroup];
  std::copy(from, from + run.values, padded);
  std::fill(padded + run.values, padded + kSuperGroup, mean);
  WholeGroup whole;
  encode_groups(slice, origin, groups, padded, {whole.unit, whole.scales, whole.codes});
  std::memcpy(at.units, whole.unit, sizeof whole.unit);
  std::memcpy(at.scales, whole.scales, scales_of(run.values));
  std::memcpy(at.codes, whole.codes, coded_packs(run.values) * pack_bytes(groups.width_of(0)));
}

// Calls work(groups, position in the message) with whole super-groups.
template <typename Work>
void SuperGroupCodec::with_whole_groups(const Slice& slice, Run run, In at, Work work) const {
  const SuperGroups groups = super_groups(slice, run);
  if (is_whole(run)) {
    work(groups, at);
    return;
  }
  WholeGroup whole;
  // The address of an empty message may be null.
  if (const Layout arrays = layout(run.values, groups.width_of(0)); arrays.size() > 0) {
    std::memcpy(whole.unit, at.units, arrays.units);
    std::memcpy(whole.scales, at.scales, arrays.scales);
    std::memcpy(whole.codes, at.codes, arrays.codes);
  }
  work(groups, In{whole.unit, whole.scales, whole.codes});
}

void SuperGroupCodec::do_statistics(ConstValues values, std::span<std::byte> out) const {
  if (!format_.has_statistics) return;
  for_each_run(values, [&](Run run, const float* from) {
    std::byte* to = out.data() + run.block * kSuperGroupStatistics;
    if (is_whole(run)) {
      statistics_.statistics(from, run.blocks, to);
    } else {
      super_group_statistics(from, run.values, to);
    }
  });
}

Status SuperGroupCodec::do_combine_statistics(std::size_t count,
                                              std::span<const std::span<const std::byte>> by_rank,
                                              std::span<std::byte> combined) const {
  if (format_.has_statistics) combine_super_group_statistics(count, by_rank, combined);
  return {};
}

Status SuperGroupCodec::do_choose_widths(std::span<const WidthRequest> parameters, SumOrder order,
                                         std::size_t capacity) const {
  if (format_.width != 0) return {};
  // The units and scales of all super-groups. If super-groups may be left out, only the padding.
  std::size_t metadata = 0;
  for (const WidthRequest& parameter : parameters) {
    metadata += format_.min_width == 0 ? 15 : layout(parameter.count, 1).codes_at();
  }
  fit_widths(width_rule(order), parameters, order.ranks,
             capacity > metadata ? capacity - metadata : 0);
  return {};
}

Status SuperGroupCodec::do_validate(const Slice& slice, Origin /*origin*/,
                                    const std::byte* wire) const {
  const Layout arrays = layout(slice);
  for (std::size_t j = 0; j < arrays.units / 2; ++j) {
    const std::uint16_t unit = get_u16(wire + 2 * j);
    if (unit >= 0x7f80 && unit != kBfloat16Nan) {
      return {ErrorCode::kCorruptFrame,
              fmt::format("invalid scale unit {:#06x} of super-group {}", unit, j)};
    }
  }
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (!std::all_of(wire + arrays.units + arrays.scales, wire + arrays.codes_at(), is_zero)) {
    return {ErrorCode::kCorruptFrame, "a byte between scales and codes is not zero"};
  }
  return {};
}

void SuperGroupCodec::do_encode(const Slice& slice, Origin origin, ConstValues values,
                                std::byte* wire) const {
  clear_padding(slice, wire);
  Cursor cursor(*this, slice, wire);
  for_each_run(values, [&](Run run, const float* from) {
    encode_run(slice, origin, run, from, cursor.at(run));
  });
}

void SuperGroupCodec::do_decode(const Slice& slice, Origin origin, const std::byte* wire,
                                Values values) const {
  Cursor cursor(*this, slice, wire);
  for_each_run(values, false, [&](Run run, float* to) {
    with_whole_groups(slice, run, cursor.at(run), [&](const SuperGroups& groups, In at) {
      decode_groups(slice, origin, groups, at, to);
    });
  });
}

void SuperGroupCodec::do_decode_add(const Slice& slice, Origin origin, const std::byte* wire,
                                    Values values) const {
  Cursor cursor(*this, slice, wire);
  for_each_run(values, true, [&](Run run, float* to) {
    with_whole_groups(slice, run, cursor.at(run), [&](const SuperGroups& groups, In at) {
      decode_add_groups(slice, origin, groups, at, to);
    });
  });
}

void SuperGroupCodec::do_decode_add_encode(const Slice& slice, Origin origin, const std::byte* wire,
                                           ConstValues values, Origin total, std::byte* out) const {
  clear_padding(slice, out);
  Cursor cursor_in(*this, slice, wire);
  Cursor cursor_out(*this, slice, out);
  for_each_run(values, [&](Run run, const float* from) {
    const In at = cursor_in.at(run);
    const Out to = cursor_out.at(run);
    if (is_whole(run)) {
      decode_add_encode_groups(slice, origin, super_groups(slice, run), at, from, total, to);
      return;
    }
    float sum[kSuperGroup];
    std::copy(from, from + kSuperGroup, sum);
    with_whole_groups(slice, run, at, [&](const SuperGroups& groups, In whole) {
      decode_add_groups(slice, origin, groups, whole, sum);
    });
    encode_run(slice, total, run, sum, to);
  });
}

}  // namespace nf
