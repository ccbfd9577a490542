#include "codec/waterfill/width_ladder.h"

#include "codec/waterfill/waterfill_kernels.h"
#include "codec/width_ladders.h"

namespace nf {
namespace {

constexpr std::size_t kWidths = kWaterfillMaxWidth - kWaterfillMinWidth + 1;
using Table = WidthThresholds<kWidths>;

#include "codec/waterfill/width_thresholds.inc"

constexpr WidthLadders<kWidths, false> kLadders(kFromFirst, kWaterfillMinWidth, 1);
constexpr WidthLadders<kWidths, true> kLaddersFromZero(kFromZero, kWaterfillMinWidth, 1);

}  // namespace

std::span<const Rung> waterfill_ladder(SumOrder order, bool zero) {
  return zero ? kLaddersFromZero.of(order) : kLadders.of(order);
}

}  // namespace nf
