// waterfill: subtractive dither on a uniform grid, at widths from 2 to 10 bits a super-group that
// follow its energy (docs/codecs/waterfill.md).
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "codec/block_codec.h"
#include "codec/codes.h"
#include "codec/make_codecs.h"
#include "codec/super_group_kernels.h"
#include "codec/waterfill/water_level.h"
#include "codec/waterfill/waterfill_kernels.h"
#include "codec/wire_bytes.h"

namespace nf {
namespace {

constexpr std::size_t kGroupsPerSuperGroup = kSuperGroup / kGroup;
constexpr double kLeastBudget = 2.5;
constexpr double kMostBudget = 8;

// How much a super-group's energy counts, by its parameter: (size / energy)^alpha.
enum class Alpha { kZero, kHalf, kOne };

struct Settings {
  double budget = 0;   // bits an element, statistics included; 0 where the width is fixed
  unsigned width = 0;  // of every super-group; 0 where it follows the budget
  Alpha alpha = Alpha::kHalf;
};

class Waterfill final : public BlockCodec {
 public:
  Waterfill(const CodecSpec& spec, Settings settings, Isa isa)
      : BlockCodec(spec, kSuperGroup, isa),
        settings_(settings),
        kernels_(isa == Isa::kScalar ? waterfill_reference() : waterfill_simd(isa)),
        statistics_(super_group_kernels(isa)) {}

  CodecKind kind() const override { return CodecKind::kRequantising; }

  std::size_t statistics_size(std::size_t count) const override {
    return super_groups_of(count) * kSuperGroupStatistics;
  }
  std::size_t width_count(std::size_t count) const override {
    return settings_.width != 0 ? 0 : super_groups_of(count);
  }

  std::size_t payload_capacity(std::span<const std::size_t> counts) const override {
    std::size_t values = 0;
    std::size_t statistics = 0;
    std::size_t least = 0;
    for (const std::size_t count : counts) {
      values += count;
      statistics += statistics_size(count);
      least += size_at(count, settings_.width != 0 ? settings_.width : kWaterfillLeastWidth);
    }
    const auto budget = static_cast<std::size_t>(settings_.budget * static_cast<double>(values) / 8);
    return budget > statistics + least ? budget - statistics : least;
  }

  std::size_t encoded_size(const Slice& slice, std::uint32_t /*contributions*/) const override {
    if (settings_.width != 0) return size_at(slice.count, settings_.width);
    const std::size_t groups = super_groups_of(slice.count);
    std::size_t size = codes_at(slice.count);
    for (std::size_t j = 0; j < groups; ++j) {
      const std::size_t held = std::min(kSuperGroup, slice.count - j * kSuperGroup);
      size += groups_of(held) * group_bytes(slice.widths[first_group(slice) + j]);
    }
    return size;
  }

 protected:
  void do_statistics(ConstValues values, std::span<std::byte> out) const override {
    for_each_run(values, [&](Run run, const float* from) {
      std::byte* to = out.data() + run.block * kSuperGroupStatistics;
      if (run.values == run.blocks * kSuperGroup) {
        statistics_.statistics(from, run.blocks, to);
      } else {
        super_group_statistics(from, run.values, to);
      }
    });
  }

  Status do_combine_statistics(std::size_t count,
                               std::span<const std::span<const std::byte>> by_rank,
                               std::span<std::byte> combined) const override {
    combine_super_group_statistics(count, by_rank, combined);
    return {};
  }

  Status do_choose_widths(std::span<const WidthRequest> parameters,
                          std::uint32_t /*ranks*/) const override {
    if (settings_.width != 0) return {};
    std::vector<std::size_t> counts;
    std::vector<WidthDemand> demands;
    std::size_t metadata = 0;
    for (const WidthRequest& parameter : parameters) {
      counts.push_back(parameter.count);
      metadata += codes_at(parameter.count);
      add_demands(parameter, demands);
    }
    fill_to_level(demands, kWaterfillLeastWidth, kWaterfillMostWidth,
                  payload_capacity(counts) - metadata);
    std::size_t next = 0;
    for (const WidthRequest& parameter : parameters) {
      for (std::uint8_t& width : parameter.widths) width = demands[next++].width;
    }
    return {};
  }

  bool is_width(std::uint8_t width) const override {
    return width >= kWaterfillLeastWidth && width <= kWaterfillMostWidth;
  }

  Status do_validate(const Slice& slice, Origin /*origin*/, const std::byte* wire) const override {
    for (std::size_t j = 0; j < super_groups_of(slice.count); ++j) {
      const std::uint16_t unit = get_u16(wire + 2 * j);
      if (unit >= 0x7f80 && unit != kBfloat16Nan) {
        return {ErrorCode::kCorruptFrame, fmt::format("scale unit {:#06x} of super-group {}", unit, j)};
      }
    }
    return {};
  }

  void do_encode(const Slice& slice, Origin origin, ConstValues values,
                 std::byte* wire) const override {
    clear_padding(slice, wire);
    for_each_run(values, [&](Run run, const float* from) { encode_run(slice, origin, run, from, wire); });
  }

  void do_decode(const Slice& slice, Origin origin, const std::byte* wire,
                 Values values) const override {
    for_each_run(values, false, [&](Run run, float* to) {
      with_whole_groups(slice, run, wire, [&](const SuperGroups& groups, WaterfillKernels::In at) {
        kernels_.decode(groups, draws(slice, origin.encoder), contributions(origin), at, to);
      });
    });
  }

  void do_decode_add(const Slice& slice, Origin origin, const std::byte* wire,
                     Values values) const override {
    for_each_run(values, true, [&](Run run, float* to) {
      with_whole_groups(slice, run, wire, [&](const SuperGroups& groups, WaterfillKernels::In at) {
        kernels_.decode_add(groups, draws(slice, origin.encoder), contributions(origin), at, to);
      });
    });
  }

  void do_decode_add_encode(const Slice& slice, Origin origin, const std::byte* wire,
                            ConstValues values, std::uint32_t encoder,
                            std::byte* out) const override {
    clear_padding(slice, out);
    for_each_run(values, [&](Run run, const float* from) {
      if (run.values == run.blocks * kSuperGroup) {
        kernels_.decode_add_encode(super_groups(slice, run), draws(slice, origin.encoder),
                                   draws(slice, encoder), contributions(origin),
                                   place(slice, run, wire), from, place(slice, run, out));
        return;
      }
      float sum[kSuperGroup];
      std::memcpy(sum, from, sizeof sum);
      with_whole_groups(slice, run, wire, [&](const SuperGroups& groups, WaterfillKernels::In at) {
        kernels_.decode_add(groups, draws(slice, origin.encoder), contributions(origin), at, sum);
      });
      encode_run(slice, Origin{encoder, origin.contributions + 1}, run, sum, out);
    });
  }

 private:
  static float contributions(Origin origin) { return static_cast<float>(origin.contributions); }
  static std::size_t first_group(const Slice& slice) {
    return static_cast<std::size_t>(slice.first / kSuperGroup);
  }
  static DrawStream draws(const Slice& slice, std::uint32_t encoder) {
    return {slice.seed, slice.step, slice.parameter, encoder, DrawPurpose::kDither};
  }

  // Where the codes of a message of `count` values start: after units and scales, at a multiple of
  // 16 bytes.
  static std::size_t codes_at(std::size_t count) {
    return (2 * super_groups_of(count) + groups_of(count) + 15) / 16 * 16;
  }
  static std::size_t size_at(std::size_t count, unsigned width) {
    return codes_at(count) + groups_of(count) * group_bytes(width);
  }

  static void clear_padding(const Slice& slice, std::byte* wire) {
    const std::size_t used = 2 * super_groups_of(slice.count) + groups_of(slice.count);
    std::memset(wire + used, 0, codes_at(slice.count) - used);
  }

  SuperGroups super_groups(const Slice& slice, Run run) const {
    const std::size_t first = first_group(slice) + run.block;
    return {.count = run.blocks,
            .first = first,
            .statistics = slice.statistics.data() + first * kSuperGroupStatistics,
            .widths = settings_.width != 0 ? nullptr : slice.widths.data() + first,
            .width = settings_.width,
            .ranks = slice.ranks};
  }

  template <typename Byte>
  SuperGroupWire<Byte> place(const Slice& slice, Run run, Byte* wire) const {
    const Slice before{.first = slice.first, .count = run.block * kSuperGroup, .widths = slice.widths};
    const std::size_t codes_before = encoded_size(before, 1) - codes_at(before.count);
    return {.units = wire + 2 * run.block,
            .scales = wire + 2 * super_groups_of(slice.count) + kGroupsPerSuperGroup * run.block,
            .codes = wire + codes_at(slice.count) + codes_before};
  }

  // A message of one whole super-group, for the partial one at a slice's end.
  struct WholeGroup {
    std::array<std::byte, 2> unit{};
    std::array<std::byte, kGroupsPerSuperGroup> scales{};
    std::array<std::byte, kGroupsPerSuperGroup * group_bytes(kWaterfillMostWidth)> codes{};
  };

  void encode_run(const Slice& slice, Origin origin, Run run, const float* from,
                  std::byte* wire) const {
    const SuperGroups groups = super_groups(slice, run);
    const auto at = place(slice, run, wire);
    if (run.values == run.blocks * kSuperGroup) {
      kernels_.encode(groups, draws(slice, origin.encoder), contributions(origin), from, at);
      return;
    }
    // Padding equals the mean, so that it is zero once centred and raises no peak.
    const float mean = contributions(origin) * bfloat16_to_float(get_u16(groups.statistics));
    float padded[kSuperGroup];
    std::copy(from, from + run.values, padded);
    std::fill(padded + run.values, padded + kSuperGroup, mean);
    WholeGroup whole;
    kernels_.encode(groups, draws(slice, origin.encoder), contributions(origin), padded,
                    {whole.unit.data(), whole.scales.data(), whole.codes.data()});
    const std::size_t held = groups_of(run.values);
    std::memcpy(at.units, whole.unit.data(), whole.unit.size());
    std::memcpy(at.scales, whole.scales.data(), held);
    std::memcpy(at.codes, whole.codes.data(), held * group_bytes(groups.width_of(0)));
  }

  template <typename Work>
  void with_whole_groups(const Slice& slice, Run run, const std::byte* wire, Work work) const {
    const SuperGroups groups = super_groups(slice, run);
    const auto at = place(slice, run, wire);
    if (run.values == run.blocks * kSuperGroup) {
      work(groups, at);
      return;
    }
    WholeGroup whole;
    const std::size_t held = groups_of(run.values);
    std::memcpy(whole.unit.data(), at.units, whole.unit.size());
    std::memcpy(whole.scales.data(), at.scales, held);
    std::memcpy(whole.codes.data(), at.codes, held * group_bytes(groups.width_of(0)));
    work(groups, {whole.unit.data(), whole.scales.data(), whole.codes.data()});
  }

  void add_demands(const WidthRequest& parameter, std::vector<WidthDemand>& demands) const {
    const std::size_t groups = super_groups_of(parameter.count);
    const auto energy_of = [&](std::size_t j) {
      return bfloat16_to_float(get_u16(parameter.statistics.data() + j * kSuperGroupStatistics + 2));
    };
    float energy = 0;
    for (std::size_t j = 0; j < groups; ++j) {
      if (std::isfinite(energy_of(j))) energy += energy_of(j);
    }
    const float inverse = energy > 0 ? static_cast<float>(parameter.count) / energy : 0.0f;
    const float weight = settings_.alpha == Alpha::kZero   ? 1.0f
                         : settings_.alpha == Alpha::kHalf ? std::sqrt(inverse)
                                                           : inverse;
    for (std::size_t j = 0; j < groups; ++j) {
      const std::size_t held = std::min(kSuperGroup, parameter.count - j * kSuperGroup);
      demands.push_back({.need = weight * energy_of(j),
                         .groups = static_cast<std::uint8_t>(groups_of(held))});
    }
  }

  const Settings settings_;
  const WaterfillKernels& kernels_;
  const SuperGroupKernels& statistics_;
};

}  // namespace

CodecResult make_waterfill(const CodecSpec& spec) {
  static constexpr std::array<std::string_view, 2> kOptions = {"width", "alpha"};
  NF_RETURN_IF_ERROR(spec.allow(true, kOptions));
  const Expected<double> width =
      spec.number("width", 0, kWaterfillLeastWidth, kWaterfillMostWidth);
  if (!width) return width.status();
  const Expected<double> alpha = spec.number("alpha", 0.5, 0, 1);
  if (!alpha) return alpha.status();
  const auto bad = [](std::string message) {
    return Status(ErrorCode::kBadConfig, "codec 'waterfill': " + message);
  };
  if (*width != std::floor(*width)) return bad("a width is a whole number of bits");
  if (*alpha != 0 && *alpha != 0.5 && *alpha != 1) return bad("alpha is 0, 0.5 or 1");
  if (spec.value.has_value() == (*width != 0)) {
    return bad("give a budget (waterfill:4) or one width (waterfill+width=4)");
  }
  if (spec.value && !(*spec.value >= kLeastBudget && *spec.value <= kMostBudget)) {
    return bad(fmt::format("the budget is {} to {} bits an element, metadata included",
                           kLeastBudget, kMostBudget));
  }
  const Expected<Isa> isa = active_isa();
  if (!isa) return isa.status();
  const Settings settings{.budget = spec.value.value_or(0),
                          .width = static_cast<unsigned>(*width),
                          .alpha = *alpha == 0     ? Alpha::kZero
                                   : *alpha == 0.5 ? Alpha::kHalf
                                                   : Alpha::kOne};
  return std::unique_ptr<Codec>(std::make_unique<Waterfill>(spec, settings, *isa));
}

}  // namespace nf
