#include "codec/waterfill/width_ladder.h"

#include <algorithm>
#include <array>
#include <bit>

namespace nf {
namespace {

constexpr std::size_t kWidths = 9;  // 2 to 10
constexpr std::size_t kShapes = 3;
constexpr std::size_t kSizes = 6;  // 2 to 64 ranks

// By width: the distance between a need and the level from which on the width is used. Numbers
// instead of a formula, so that the result does not depend on the maths library.
using Thresholds = std::array<int, kWidths>;
using Table = std::array<std::array<Thresholds, kSizes>, kShapes>;

#include "codec/waterfill/width_thresholds.inc"

template <bool kZero>
constexpr auto make_ladder(const Thresholds& thresholds) {
  std::array<Rung, kWidths + (kZero ? 1 : 0)> ladder{};
  for (std::size_t i = 0; i < kWidths; ++i) {
    const auto width = static_cast<std::uint8_t>(i + 2);
    Rung& rung = ladder[i + (kZero ? 1 : 0)];
    rung.width = width;
    rung.threshold = thresholds[i];
    rung.pack_bytes = static_cast<std::uint8_t>(4 * width + (kZero ? 1 : 0));
    rung.bytes = kZero ? 2 : 0;
  }
  return ladder;
}

template <bool kZero>
constexpr auto make_ladders(const Table& table) {
  std::array<std::array<decltype(make_ladder<kZero>({})), kSizes>, kShapes> ladders{};
  for (std::size_t shape = 0; shape < kShapes; ++shape) {
    for (std::size_t size = 0; size < kSizes; ++size) {
      ladders[shape][size] = make_ladder<kZero>(table[shape][size]);
    }
  }
  return ladders;
}

constexpr auto kLadders = make_ladders<false>(kFromTwo);
constexpr auto kLaddersFromZero = make_ladders<true>(kFromZero);

}  // namespace

std::span<const Rung> width_ladder(SumOrder order, bool zero) {
  static_assert(static_cast<std::size_t>(SumShape::kChain) == 0 &&
                static_cast<std::size_t>(SumShape::kTree) == 1 &&
                static_cast<std::size_t>(SumShape::kStar) == 2);
  const auto shape = static_cast<std::size_t>(order.shape);
  // The nearest power of two below the number of ranks, from 2 to 64.
  const auto octave = static_cast<std::size_t>(std::bit_width(std::clamp(order.ranks, 2u, 64u)));
  const std::size_t size = octave - 2;
  if (zero) return kLaddersFromZero[shape][size];
  return kLadders[shape][size];
}

}  // namespace nf
