// The codecs whose widths follow the energies of super-groups under one water level: waterfill and
// rotated. They differ in how they quantise a super-group, which a WaterLevelFormat describes.
#pragma once

#include <span>
#include <string_view>

#include "base/random.h"
#include "codec/make_codecs.h"
#include "codec/super_group_codec.h"
#include "codec/super_group_kernels.h"
#include "codec/water_level.h"

namespace nf {

struct WaterLevelFormat {
  std::string_view name;
  SuperGroupFormat messages;  // without budget, fixed width and error feedback
  // Bits per element, statistics included.
  double min_budget = 0;
  double min_budget_with_feedback = 0;
  double max_budget = 0;
  double max_hop_budget = 0;        // of a single hop; the mean over all hops is at most max_budget
  bool centres_fixed_width = true;  // whether a fixed width has statistics, to remove the mean
  DrawPurpose purpose = DrawPurpose::kDither;
  const MessageKernels& (*kernels)(Isa isa) = nullptr;
  // With `zero` also width 0: super-groups may be left out, and the costs of the other widths
  // include the unit and the scales.
  std::span<const Rung> (*ladder)(SumOrder order, bool zero) = nullptr;
};

// Makes the codec of a spec: NAME:BUDGET or NAME+width=W, with the options alpha, ef, flat and
// rms.
// `format` has static storage duration.
CodecResult make_water_level_codec(const CodecSpec& spec, const WaterLevelFormat& format);

}  // namespace nf
