#include "codec/waterfill/water_level.h"

#include <algorithm>
#include <array>
#include <bit>

namespace nf {
namespace {

// A need falls into a bin by its exponent and the top three bits of its mantissa: an eighth of an
// octave, and the same bin on every machine.
constexpr unsigned kBinsPerOctave = 8;
constexpr std::size_t kBins = 256 * kBinsPerOctave;

std::size_t bin_of(float need) {
  if (!(need > 0)) return need == need ? 0 : kBins - 1;  // NaN: poisoned anyway, count it as loud
  return std::bit_cast<std::uint32_t>(need) >> 20;
}

// How many bins above the level a need must lie to be worth width b + 1 rather than b, for b from
// 1: -log2(error(b) - error(b + 1)), in bins, to the nearest. Numbers rather than a formula, so
// that no two mathematics libraries can disagree.
constexpr std::array<int, 15> kThresholds = {1,   28,  48,  66,  82,  99,  115, 131,
                                             147, 163, 179, 195, 211, 227, 243};

}  // namespace

void fill_to_level(std::span<WidthDemand> demands, unsigned least, unsigned most,
                   std::size_t code_bytes) {
  // groups_from[k] = groups of the super-groups in bins k and above.
  std::array<std::size_t, kBins + 1> groups_from{};
  std::size_t groups = 0;
  for (const WidthDemand& demand : demands) {
    groups_from[bin_of(demand.need)] += demand.groups;
    groups += demand.groups;
  }
  for (std::size_t k = kBins; k-- > 0;) groups_from[k] += groups_from[k + 1];

  const auto first_bin = [&](int level, unsigned b) {
    return static_cast<std::size_t>(
        std::clamp(level + kThresholds[b - 1], 0, static_cast<int>(kBins)));
  };
  const auto bytes_at = [&](int level) {
    std::size_t group_bits = groups * least;
    for (unsigned b = least; b < most; ++b) group_bits += groups_from[first_bin(level, b)];
    return 4 * group_bits;
  };

  // The lowest level that fits: at `high` all have the least width.
  int low = -kThresholds[most - 2] - 1;
  int high = static_cast<int>(kBins) - kThresholds[least - 1];
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (bytes_at(middle) <= code_bytes) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }

  // One level lower would not fit as a whole, but for some of the super-groups it does, in order.
  const std::size_t used = bytes_at(high);
  std::size_t spare = code_bytes > used ? code_bytes - used : 0;
  std::array<std::uint8_t, kBins> width_at{};
  std::array<std::uint8_t, kBins> width_below{};
  for (std::size_t k = 0; k < kBins; ++k) {
    unsigned width = least;
    unsigned below = least;
    for (unsigned b = least; b < most; ++b) {
      width += k >= first_bin(high, b) ? 1 : 0;
      below += k >= first_bin(high - 1, b) ? 1 : 0;
    }
    width_at[k] = static_cast<std::uint8_t>(width);
    width_below[k] = static_cast<std::uint8_t>(below);
  }
  for (WidthDemand& demand : demands) {
    const std::size_t bin = bin_of(demand.need);
    demand.width = width_at[bin];
    const std::size_t extra = 4u * demand.groups * (width_below[bin] - width_at[bin]);
    if (extra > 0 && extra <= spare) {
      demand.width = width_below[bin];
      spare -= extra;
    }
  }
}

}  // namespace nf
