// The loops of dynamiq over whole super-groups (docs/codecs/dynamiq.md).
#pragma once

#include <cstddef>

#include "codec/dynamiq/dynamiq_draws.h"
#include "codec/dynamiq/dynamiq_lattice.h"
#include "codec/isa.h"
#include "codec/super_group.h"

namespace nf {

inline constexpr std::size_t kDynamiqGroup = 16;  // values that share a scale
inline constexpr unsigned kDynamiqLeastWidth = 2;
inline constexpr unsigned kDynamiqMostWidth = 8;
// From a super-group's peak to its unit: scales are at most 255 units.
inline constexpr float kPeakToUnit = 1.0f / 255.0f;
// Positions are scaled by a group's peak or by this, whichever is greater: 127 / peak overflows
// below 2^-121, and a group may lie that far below the peak of its super-group.
inline constexpr float kLeastGroupPeak = 0x1p-120f;

struct DynamiqKernels {
  using In = SuperGroupWire<const std::byte>;
  using Out = SuperGroupWire<std::byte>;

  // `contributions` ranks are summed in the values; for decode_add_encode, in the incoming
  // message, and `total` in the outgoing one.
  void (*encode)(const SuperGroups& groups, const DynamiqDraws& draws, bool uniform,
                 float contributions, const float* values, Out wire);
  void (*decode)(const SuperGroups& groups, bool uniform, float contributions, In wire,
                 float* values);
  void (*decode_add)(const SuperGroups& groups, bool uniform, float contributions, In wire,
                     float* values);
  void (*decode_add_encode)(const SuperGroups& groups, const DynamiqDraws& draws, bool uniform,
                            float contributions, float total, In wire, const float* values,
                            Out out);
};

const DynamiqKernels& dynamiq_reference();
// Precondition: isa is one of available_isas() other than kScalar.
const DynamiqKernels& dynamiq_simd(Isa isa);

}  // namespace nf
