#include "codec/water_level_codec.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "codec/hop_budgets.h"
#include "codec/width_rule.h"

namespace nf {
namespace {

struct Settings {
  Need need = Need::kEnergyByRoot;
  bool feedback = false;  // error feedback: super-groups may be left out
  bool flat = false;      // the same widths at every hop
};

double min_budget(const WaterLevelFormat& format, bool feedback) {
  return feedback ? format.min_budget_with_feedback : format.min_budget;
}

class WaterLevelCodec final : public SuperGroupCodec {
 public:
  WaterLevelCodec(const CodecSpec& spec, const WaterLevelFormat& all, SuperGroupFormat own,
                  Settings settings, Isa isa)
      : SuperGroupCodec(spec, own, isa),
        all_(all),
        settings_(settings),
        isa_(isa),
        kernels_(all.kernels(isa)) {}

  bool keeps_residual() const override { return settings_.feedback; }
  // With error feedback, super-groups that are left out are sent in a later step.
  bool is_unbiased(std::uint32_t /*encodes*/) const override { return !settings_.feedback; }

  WidthRule width_rule(SumOrder order) const override {
    return {.need = settings_.need,
            .pads_packs = format().pads_packs,
            .ladder = all_.ladder(order, settings_.feedback)};
  }

  std::vector<Hop> hops(SumOrder order) const override {
    std::vector<Hop> hops;
    if (format().budget == 0 || settings_.flat) return hops;
    for (const HopBudget& budget : hop_budgets(
             order, format().budget, min_budget(all_, settings_.feedback), all_.max_hop_budget)) {
      SuperGroupFormat of_hop = format();
      of_hop.budget = budget.bits;
      Settings settings = settings_;
      settings.flat = true;
      hops.push_back({budget.max_contributions,
                      std::make_unique<WaterLevelCodec>(spec(), all_, of_hop, settings, isa_)});
    }
    return hops;
  }

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
    return width >= all_.messages.min_width && width <= all_.messages.max_width;
  }

 private:
  static float contributions(Origin origin) { return static_cast<float>(origin.contributions); }
  DrawStream draws(const Slice& slice, std::uint32_t encoder) const {
    return {slice.seed, slice.step, slice.parameter, encoder, all_.purpose};
  }

  const WaterLevelFormat& all_;
  const Settings settings_;
  const Isa isa_;
  const MessageKernels& kernels_;
};

}  // namespace

CodecResult make_water_level_codec(const CodecSpec& spec, const WaterLevelFormat& format) {
  static constexpr std::array<std::string_view, 5> kOptions = {"width", "alpha", "ef", "flat",
                                                               "rms"};
  NF_RETURN_IF_ERROR(spec.allow(true, kOptions));
  const Expected<double> width =
      spec.number("width", 0, format.messages.min_width, format.messages.max_width);
  if (!width) return width.status();
  const Expected<bool> rms = spec.flag("rms");
  if (!rms) return rms.status();
  // In units of its history, every parameter is of the same size.
  const Expected<double> alpha = spec.number("alpha", *rms ? 0 : 0.5, 0, 1);
  if (!alpha) return alpha.status();
  const Expected<bool> feedback = spec.flag("ef");
  if (!feedback) return feedback.status();
  const Expected<bool> flat = spec.flag("flat");
  if (!flat) return flat.status();
  const auto bad = [&](std::string_view message) {
    return Status(ErrorCode::kBadConfig, fmt::format("codec '{}': {}", format.name, message));
  };
  if (*width != std::floor(*width)) return bad("width must be a whole number of bits");
  if (*alpha != 0 && *alpha != 0.5 && *alpha != 1) return bad("alpha must be 0, 0.5 or 1");
  if (spec.value.has_value() == (*width != 0)) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("codec '{0}': give either a budget ({0}:4) or a width ({0}+width=4)",
                              format.name));
  }
  if (*rms && *feedback) {
    return bad("+ef and +rms exclude each other: residuals have no units; omit one of them");
  }
  const double min = min_budget(format, *feedback);
  if (spec.value && !(*spec.value >= min && *spec.value <= format.max_budget)) {
    const std::string hint = *feedback ? ""
                                       : fmt::format("; error feedback (+ef) allows it from {} on",
                                                     format.min_budget_with_feedback);
    return Status(
        ErrorCode::kBadConfig,
        fmt::format("codec '{}': the budget must be {} to {} bits per element, statistics "
                    "and scales included{}",
                    format.name, min, format.max_budget, hint));
  }
  const Expected<Isa> isa = active_isa();
  if (!isa) return isa.status();
  SuperGroupFormat own = format.messages;
  if (*feedback) own.min_width = 0;
  own.budget = spec.value.value_or(0);
  own.width = static_cast<unsigned>(*width);
  own.has_statistics = own.width == 0 || format.centres_fixed_width;
  // The weight of a super-group's energy is (size / energy)^alpha of its parameter.
  const Settings settings{.need = *alpha == 0     ? Need::kEnergy
                                  : *alpha == 0.5 ? Need::kEnergyByRoot
                                                  : Need::kEnergyByParameter,
                          .feedback = *feedback,
                          .flat = *flat};
  return std::unique_ptr<Codec>(
      std::make_unique<WaterLevelCodec>(spec, format, own, settings, *isa));
}

}  // namespace nf
