// The kernels of dynamiq for whole super-groups (docs/codecs/dynamiq.md).
#pragma once

#include <cstddef>

#include "codec/dynamiq/dynamiq_draws.h"
#include "codec/dynamiq/dynamiq_lattice.h"
#include "codec/isa.h"
#include "codec/super_group.h"

namespace nf {

inline constexpr std::size_t kDynamiqGroup = 16;  // values that share a scale
inline constexpr unsigned kDynamiqMinWidth = 2;
inline constexpr unsigned kDynamiqMaxWidth = 8;
// The unit of a super-group is its peak times this: scales are at most 255 units.
inline constexpr float kPeakToUnit = 1.0f / 255.0f;
// Positions are scaled by the maximum of a group's peak and this: 127 / peak overflows below
// 2^-121, and the peak of a group may be that far below the peak of its super-group.
inline constexpr float kMinGroupPeak = 0x1p-120f;

struct DynamiqKernels {
  using In = SuperGroupWire<const std::byte>;
  using Out = SuperGroupWire<std::byte>;

  // `contributions` is the number of ranks in the values or in the incoming message, `total` the
  // number of ranks in the outgoing message.
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
