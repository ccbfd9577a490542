// The ladders of a codec by the order of sums, from tables that scripts/width_ladder.py measures.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/codes.h"
#include "codec/water_level.h"
#include "neuron_fabric/codec.h"

namespace nf {

inline constexpr std::size_t kLadderShapes = 3;
inline constexpr std::size_t kLadderSizes = 6;  // 2 to 64 ranks

// By shape, ranks and width: the distance between a need and the level from which on the width is
// used. Numbers instead of a formula, so that the result does not depend on the maths library.
template <std::size_t kWidths>
using WidthThresholds =
    std::array<std::array<std::array<int, kWidths>, kLadderSizes>, kLadderShapes>;

// A ladder of consecutive widths for each order of sums. With kZero it starts with width 0, and the
// costs of the other widths include their unit and scales.
template <std::size_t kWidths, bool kZero>
class WidthLadders {
 public:
  constexpr WidthLadders(const WidthThresholds<kWidths>& thresholds, unsigned min_width,
                         unsigned scale_bytes_per_pack) {
    for (std::size_t shape = 0; shape < kLadderShapes; ++shape) {
      for (std::size_t size = 0; size < kLadderSizes; ++size) {
        for (std::size_t i = 0; i < kWidths; ++i) {
          const auto width = static_cast<unsigned>(min_width + i);
          Rung& rung = ladders_[shape][size][i + (kZero ? 1 : 0)];
          rung.width = static_cast<std::uint8_t>(width);
          rung.threshold = thresholds[shape][size][i];
          rung.pack_bytes =
              static_cast<std::uint8_t>(pack_bytes(width) + (kZero ? scale_bytes_per_pack : 0));
          rung.bytes = kZero ? 2 : 0;
        }
      }
    }
  }

  constexpr std::span<const Rung> of(SumOrder order) const {
    static_assert(static_cast<std::size_t>(SumShape::kChain) == 0 &&
                  static_cast<std::size_t>(SumShape::kTree) == 1 &&
                  static_cast<std::size_t>(SumShape::kStar) == 2);
    // The nearest power of two below the number of ranks, from 2 to 64.
    const auto octave = static_cast<std::size_t>(std::bit_width(std::clamp(order.ranks, 2u, 64u)));
    return ladders_[static_cast<std::size_t>(order.shape)][octave - 2];
  }

 private:
  using Ladder = std::array<Rung, kWidths + (kZero ? 1 : 0)>;
  std::array<std::array<Ladder, kLadderSizes>, kLadderShapes> ladders_{};
};

}  // namespace nf
