// waterfill: subtractive dither on a uniform grid. Every super-group has 2 to 10 bits, depending on
// its energy (docs/codecs/waterfill.md).
#include "codec/make_codecs.h"
#include "codec/water_level_codec.h"
#include "codec/waterfill/waterfill_kernels.h"
#include "codec/waterfill/width_ladder.h"

namespace nf {
namespace {

const MessageKernels& kernels(Isa isa) {
  return isa == Isa::kScalar ? waterfill_reference() : waterfill_simd(isa);
}

constexpr WaterLevelFormat kFormat{.name = "waterfill",
                                   .messages = {.values_per_scale_byte = 2 * kWaterfillGroup,
                                                .min_width = kWaterfillMinWidth,
                                                .max_width = kWaterfillMaxWidth},
                                   .min_budget = 2.5,
                                   .min_budget_with_feedback = 1,
                                   .max_budget = 8,
                                   .max_hop_budget = 10,
                                   .purpose = DrawPurpose::kDither,
                                   .kernels = kernels,
                                   .ladder = waterfill_ladder};

}  // namespace

CodecResult make_waterfill(const CodecSpec& spec) { return make_water_level_codec(spec, kFormat); }

}  // namespace nf
