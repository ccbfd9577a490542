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

  // `contributions` ranks are summed in the values; `draws` are those of the message's encoder.
  void (*encode)(const SuperGroups& groups, const DrawStream& draws, float contributions,
                 const float* values, Out wire);
  void (*decode)(const SuperGroups& groups, const DrawStream& draws, float contributions, In wire,
                 float* values);
  void (*decode_add)(const SuperGroups& groups, const DrawStream& draws, float contributions,
                     In wire, float* values);
  // `contributions` are those of the incoming message, `total` those of the outgoing one.
  void (*decode_add_encode)(const SuperGroups& groups, const DrawStream& draws_in,
                            const DrawStream& draws_out, float contributions, float total, In wire,
                            const float* values, Out out);
};

const WaterfillKernels& waterfill_reference();
// Precondition: isa is one of available_isas() other than kScalar.
const WaterfillKernels& waterfill_simd(Isa isa);

// The grid of a width.
struct WaterfillGrid {
  float centre = 0;  // 2^(width - 1) - 2, an even number: what a code counts from
  float step = 0;    // of a group of scale 1: 2 / (2^width - 1), and a little more

  constexpr WaterfillGrid() = default;
  constexpr explicit WaterfillGrid(unsigned width)
      : centre(static_cast<float>((1u << (width - 1)) - 2)),
        step(kMargin * 2.0f / static_cast<float>((1u << width) - 1)) {}

 private:
  // Keeps every rounded position within the codes, so that none is ever clamped.
  static constexpr float kMargin = 1.0f + 0x1p-13f;
};

// Values that share a scale. Two of these groups make a group of codes, and a byte of scales.
inline constexpr std::size_t kWaterfillGroup = 16;
// A scale is 0, or from 5 to 19 units in four bits: most groups of a super-group have a peak of at
// least a quarter of the greatest.
inline constexpr unsigned kMostScale = 19;
inline constexpr unsigned kLeastScale = 5;
inline constexpr float kPeakToScaleUnit = 1.0f / 19.0f;

constexpr unsigned scale_to_code(unsigned scale) { return scale == 0 ? 0 : scale - 4; }
constexpr unsigned code_to_scale(unsigned code) { return code == 0 ? 0 : code + 4; }

// A draw of 16 bits becomes a dither in (1, 2): these bits, with the draw in bits 7 to 22.
inline constexpr std::uint32_t kDitherBits = 0x3f800040u;  // 1 + 2^-17

}  // namespace nf
