// waterfill: subtractive dither on a uniform grid. Every super-group has 2 to 10 bits, depending on
// its energy (docs/codecs/waterfill.md).
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <vector>

#include "codec/make_codecs.h"
#include "codec/super_group_codec.h"
#include "codec/waterfill/hop_budgets.h"
#include "codec/waterfill/waterfill_kernels.h"
#include "codec/waterfill/width_ladder.h"
#include "codec/width_rule.h"

namespace nf {
namespace {

constexpr double kMinBudget = 2.5;
constexpr double kMinBudgetWithFeedback = 1;
constexpr double kMaxBudget = 8;
// The limit of a single hop; the mean over all hops is at most kMaxBudget.
constexpr double kMaxHopBudget = 10;

struct Settings {
  Need need = Need::kEnergyByRoot;
  bool feedback = false;  // error feedback: super-groups may be left out
  bool flat = false;      // the same widths at every hop
};

class Waterfill final : public SuperGroupCodec {
 public:
  Waterfill(const CodecSpec& spec, SuperGroupFormat format, Settings settings, Isa isa)
      : SuperGroupCodec(spec, format, isa),
        settings_(settings),
        isa_(isa),
        kernels_(isa == Isa::kScalar ? waterfill_reference() : waterfill_simd(isa)) {}

  bool keeps_residual() const override { return settings_.feedback; }
  // With error feedback, super-groups that are left out are sent in a later step.
  bool is_unbiased(std::uint32_t /*encodes*/) const override { return !settings_.feedback; }

  WidthRule width_rule(SumOrder order) const override {
    return {.need = settings_.need, .ladder = width_ladder(order, settings_.feedback)};
  }

  std::vector<Hop> hops(SumOrder order) const override {
    std::vector<Hop> hops;
    if (format().budget == 0 || settings_.flat) return hops;
    for (const HopBudget& budget :
         hop_budgets(order, format().budget, min_budget(settings_.feedback), kMaxHopBudget)) {
      SuperGroupFormat of_hop = format();
      of_hop.budget = budget.bits;
      Settings settings = settings_;
      settings.flat = true;
      hops.push_back(
          {budget.max_contributions, std::make_unique<Waterfill>(spec(), of_hop, settings, isa_)});
    }
    return hops;
  }

  static double min_budget(bool feedback) { return feedback ? kMinBudgetWithFeedback : kMinBudget; }

 protected:
  void encode_groups(const Slice& slice, Origin origin, const SuperGroups& groups,
                     const float* values, Out wire) const override {
    kernels_.encode(groups, draws(slice, origin.encoder), contributions(origin), values, wire);
  }

  void decode_groups(const Slice& slice, Origin origin, const SuperGroups& groups, In wire,
                     float* values) const override {
    kernels_.decode(groups, draws(slice, origin.encoder), contributions(origin), wire, values);
  }

  void decode_add_groups(const Slice& slice, Origin origin, const SuperGroups& groups, In wire,
                         float* values) const override {
    kernels_.decode_add(groups, draws(slice, origin.encoder), contributions(origin), wire, values);
  }

  void decode_add_encode_groups(const Slice& slice, Origin origin, const SuperGroups& groups,
                                In wire, const float* values, Origin total,
                                Out out) const override {
    kernels_.decode_add_encode(groups, draws(slice, origin.encoder), draws(slice, total.encoder),
                               contributions(origin), contributions(total), wire, values, out);
  }

  bool is_width(std::uint8_t width) const override {
    if (width == 0) return settings_.feedback;
    return width >= kWaterfillMinWidth && width <= kWaterfillMaxWidth;
  }

 private:
  static float contributions(Origin origin) { return static_cast<float>(origin.contributions); }
  static DrawStream draws(const Slice& slice, std::uint32_t encoder) {
    return {slice.seed, slice.step, slice.parameter, encoder, DrawPurpose::kDither};
  }

  const Settings settings_;
  const Isa isa_;
  const WaterfillKernels& kernels_;
};

}  // namespace

CodecResult make_waterfill(const CodecSpec& spec) {
  static constexpr std::array<std::string_view, 4> kOptions = {"width", "alpha", "ef", "flat"};
  NF_RETURN_IF_ERROR(spec.allow(true, kOptions));
  const Expected<double> width = spec.number("width", 0, kWaterfillMinWidth, kWaterfillMaxWidth);
  if (!width) return width.status();
  const Expected<double> alpha = spec.number("alpha", 0.5, 0, 1);
  if (!alpha) return alpha.status();
  const Expected<bool> feedback = spec.flag("ef");
  if (!feedback) return feedback.status();
  const Expected<bool> flat = spec.flag("flat");
  if (!flat) return flat.status();
  const auto bad = [](std::string_view message) {
    return Status(ErrorCode::kBadConfig, fmt::format("codec 'waterfill': {}", message));
  };
  if (*width != std::floor(*width)) return bad("width must be a whole number of bits");
  if (*alpha != 0 && *alpha != 0.5 && *alpha != 1) return bad("alpha must be 0, 0.5 or 1");
  if (spec.value.has_value() == (*width != 0)) {
    return bad("give either a budget (waterfill:4) or a width (waterfill+width=4)");
  }
  const double min_budget = Waterfill::min_budget(*feedback);
  if (spec.value && !(*spec.value >= min_budget && *spec.value <= kMaxBudget)) {
    const std::string hint = *feedback ? ""
                                       : fmt::format("; error feedback (+ef) allows it from {} on",
                                                     Waterfill::min_budget(true));
    return bad(fmt::format(
        "the budget must be {} to {} bits per element, statistics and scales included{}",
        min_budget, kMaxBudget, hint));
  }
  const Expected<Isa> isa = active_isa();
  if (!isa) return isa.status();
  const SuperGroupFormat format{.values_per_scale_byte = 2 * kWaterfillGroup,
                                .min_width = *feedback ? 0 : kWaterfillMinWidth,
                                .max_width = kWaterfillMaxWidth,
                                .budget = spec.value.value_or(0),
                                .width = static_cast<unsigned>(*width)};
  // The weight of a super-group's energy is (size / energy)^alpha of its parameter.
  const Settings settings{.need = *alpha == 0     ? Need::kEnergy
                                  : *alpha == 0.5 ? Need::kEnergyByRoot
                                                  : Need::kEnergyByParameter,
                          .feedback = *feedback,
                          .flat = *flat};
  return std::unique_ptr<Codec>(std::make_unique<Waterfill>(spec, format, settings, *isa));
}

}  // namespace nf
