// rotated: a randomised Hadamard rotation, Lloyd-Max levels of the normal distribution, and one
// scale per super-group that makes the result unbiased (docs/codecs/rotated.md).
#include "codec/make_codecs.h"
#include "codec/rotated/rotated_kernels.h"
#include "codec/rotated/width_ladder.h"
#include "codec/water_level_codec.h"

namespace nf {
namespace {

const MessageKernels& kernels(Isa isa) {
  return isa == Isa::kScalar ? rotated_reference() : rotated_simd(isa);
}

constexpr WaterLevelFormat kFormat{
    .name = "rotated",
    .messages = {.values_per_scale_byte = 0,
                 .pads_packs = true,
                 .min_width = kRotatedMinWidth,
                 .max_width = kRotatedMaxWidth},
    .min_budget = 1.25,
    .min_budget_with_feedback = 0.5,
    .max_budget = 8,
    .max_hop_budget = 8.1875,  // all super-groups have the maximum width
    .centres_fixed_width = false,
    .purpose = DrawPurpose::kRotation,
    .kernels = kernels,
    .ladder = rotated_ladder};

}  // namespace

CodecResult make_rotated(const CodecSpec& spec) { return make_water_level_codec(spec, kFormat); }

}  // namespace nf
