#include "codec/rotated/width_ladder.h"

#include "codec/rotated/rotated_kernels.h"
#include "codec/width_ladders.h"

namespace nf {
namespace {

constexpr std::size_t kWidths = kRotatedMaxWidth - kRotatedMinWidth + 1;
using Table = WidthThresholds<kWidths>;

#include "codec/rotated/width_thresholds.inc"

constexpr WidthLadders<kWidths, false> kLadders(kFromFirst, kRotatedMinWidth, 0);
constexpr WidthLadders<kWidths, true> kLaddersFromZero(kFromZero, kRotatedMinWidth, 0);

}  // namespace

std::span<const Rung> rotated_ladder(SumOrder order, bool zero) {
  return zero ? kLaddersFromZero.of(order) : kLadders.of(order);
}

}  // namespace nf
