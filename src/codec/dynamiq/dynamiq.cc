// dynamiq: stochastic rounding to a lattice that is finer near zero, correlated between ranks.
// Every super-group has 2, 4 or 8 bits, depending on its energy (docs/codecs/dynamiq.md).
#include <fmt/format.h>

#include <array>

#include "codec/dynamiq/dynamiq_kernels.h"
#include "codec/make_codecs.h"
#include "codec/super_group_codec.h"
#include "codec/width_rule.h"

namespace nf {
namespace {

constexpr double kMinBudget = 3;
constexpr double kMaxBudget = 8;

// A super-group gets 2 bits below the level, 4 bits from the level on and 8 bits from 512/17 times
// the level on: 8 log2(512/17) = 39.3 eighths of an octave.
constexpr std::array<Rung, 3> kLadder = {
    {{.width = 2, .pack_bytes = pack_bytes(2)},
     {.width = 4, .pack_bytes = pack_bytes(4)},
     {.width = 8, .threshold = 39, .pack_bytes = pack_bytes(8)}}};

constexpr bool is_dynamiq_width(double width) { return width == 2 || width == 4 || width == 8; }

struct Options {
  bool uniform = false;    // a lattice of equal steps
  bool correlated = true;  // ranks draw from different strata
};

class Dynamiq final : public SuperGroupCodec {
 public:
  Dynamiq(const CodecSpec& spec, SuperGroupFormat format, Options options, Isa isa)
      : SuperGroupCodec(spec, format, isa),
        options_(options),
        kernels_(isa == Isa::kScalar ? dynamiq_reference() : dynamiq_simd(isa)) {}

  // Correlated draws are unbiased in one encode only: in a chain, the rounding of a hop depends on
  // the error of the hops before it (docs/codecs/dynamiq.md).
  bool is_unbiased(std::uint32_t encodes) const override {
    return encodes <= 1 || !options_.correlated;
  }

  WidthRule width_rule(SumOrder /*order*/) const override {
    return {.need = Need::kEnergyAndMean, .ladder = kLadder};
  }

 protected:
  void encode_groups(const Slice& slice, Origin origin, const SuperGroups& groups,
                     const float* values, Out wire) const override {
    kernels_.encode(groups, draws(slice, origin.encoder), options_.uniform, contributions(origin),
                    values, wire);
  }

  void decode_groups(const Slice& /*slice*/, Origin origin, const SuperGroups& groups, In wire,
                     float* values) const override {
    kernels_.decode(groups, options_.uniform, contributions(origin), wire, values);
  }

  void decode_add_groups(const Slice& /*slice*/, Origin origin, const SuperGroups& groups, In wire,
                         float* values) const override {
    kernels_.decode_add(groups, options_.uniform, contributions(origin), wire, values);
  }

  void decode_add_encode_groups(const Slice& slice, Origin origin, const SuperGroups& groups,
                                In wire, const float* values, Origin total,
                                Out out) const override {
    kernels_.decode_add_encode(groups, draws(slice, total.encoder), options_.uniform,
                               contributions(origin), contributions(total), wire, values, out);
  }

  bool is_width(std::uint8_t width) const override { return is_dynamiq_width(width); }

 private:
  static float contributions(Origin origin) { return static_cast<float>(origin.contributions); }
  DynamiqDraws draws(const Slice& slice, std::uint32_t encoder) const {
    return {slice, encoder, options_.correlated};
  }

  const Options options_;
  const DynamiqKernels& kernels_;
};

}  // namespace

CodecResult make_dynamiq(const CodecSpec& spec) {
  static constexpr std::array<std::string_view, 3> kOptions = {"width", "uniform", "independent"};
  NF_RETURN_IF_ERROR(spec.allow(true, kOptions));
  const Expected<double> width = spec.number("width", 0, 2, 8);
  if (!width) return width.status();
  const Expected<bool> uniform = spec.flag("uniform");
  if (!uniform) return uniform.status();
  const Expected<bool> independent = spec.flag("independent");
  if (!independent) return independent.status();
  const auto bad = [](std::string_view message) {
    return Status(ErrorCode::kBadConfig, fmt::format("codec 'dynamiq': {}", message));
  };
  if (*width != 0 && !is_dynamiq_width(*width)) return bad("width must be 2, 4 or 8 bits");
  if (spec.value.has_value() == (*width != 0)) {
    return bad("give either a budget (dynamiq:5) or a width (dynamiq+width=4)");
  }
  if (spec.value && !(*spec.value >= kMinBudget && *spec.value <= kMaxBudget)) {
    return bad(
        fmt::format("the budget must be {} to {} bits per element, statistics and scales included",
                    kMinBudget, kMaxBudget));
  }
  const Expected<Isa> isa = active_isa();
  if (!isa) return isa.status();
  const SuperGroupFormat format{.values_per_scale_byte = kDynamiqGroup,
                                .min_width = kDynamiqMinWidth,
                                .max_width = kDynamiqMaxWidth,
                                .budget = spec.value.value_or(0),
                                .width = static_cast<unsigned>(*width)};
  const Options options{.uniform = *uniform, .correlated = !*independent};
  return std::unique_ptr<Codec>(std::make_unique<Dynamiq>(spec, format, options, *isa));
}

}  // namespace nf
