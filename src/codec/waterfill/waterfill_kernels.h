// The loops of waterfill over whole super-groups (docs/codecs/waterfill.md).
#pragma once

#include <cstddef>

#include "codec/isa.h"
#include "codec/super_group.h"

namespace nf {

inline constexpr unsigned kWaterfillLeastWidth = 2;
inline constexpr unsigned kWaterfillMostWidth = 10;

struct WaterfillKernels {
  using In = SuperGroupWire<const std::byte>;
  using Out = SuperGroupWire<std::byte>;

  // `origin.contributions` ranks are summed in the values, `origin.encoder` draws the dither.
  void (*encode)(const SuperGroups& groups, const DrawStream& draws, float contributions,
                 const float* values, Out wire);
  void (*decode)(const SuperGroups& groups, const DrawStream& draws, float contributions, In wire,
                 float* values);
  void (*decode_add)(const SuperGroups& groups, const DrawStream& draws, float contributions,
                     In wire, float* values);
  // `contributions` are those of the incoming message.
  void (*decode_add_encode)(const SuperGroups& groups, const DrawStream& draws_in,
                            const DrawStream& draws_out, float contributions, In wire,
                            const float* values, Out out);
};

const WaterfillKernels& waterfill_reference();
// Precondition: isa is one of available_isas() other than kScalar.
const WaterfillKernels& waterfill_simd(Isa isa);

// Decoding and encoding both need these, computed in exactly this way.
struct WaterfillGrid {
  float top;     // 2^width - 1, the greatest code
  float offset;  // what a draw of 0 adds to a code: (2^width - 1) / 2 - 1/2 + 2^-17
  float step;    // grid step of a group of scale 1: 2 / (2^width - 1)

  constexpr explicit WaterfillGrid(unsigned width)
      : top(static_cast<float>((1u << width) - 1)),
        offset(0.5f * top - (0.5f - 0x1p-17f)),
        step(2.0f / top) {}
};

inline constexpr float kDrawUnit = 0x1p-16f;
inline constexpr float kPeakToUnit = 1.0f / 255.0f;

}  // namespace nf
