#include "codec/water_level.h"

#include <algorithm>
#include <array>
#include <bit>

namespace nf {
namespace {

// The bin of a need is its exponent and the top three bits of its mantissa: an eighth of an octave,
// and the same bin on every host.
constexpr unsigned kBinsPerOctave = 8;
constexpr std::size_t kBins = 256 * kBinsPerOctave;

std::size_t bin_of(float need) {
  if (!(need > 0)) return need == need ? 0 : kBins - 1;  // NaN counts as the largest need
  return std::bit_cast<std::uint32_t>(need) >> 20;
}

std::size_t first_bin(int level, const Rung& rung) {
  return static_cast<std::size_t>(std::clamp(level + rung.threshold, 0, static_cast<int>(kBins)));
}

std::size_t cost(const Rung& rung, std::size_t packs, std::size_t super_groups) {
  return rung.pack_bytes * packs + rung.bytes * super_groups;
}

// The index of the rung of a need in `bin`.
std::size_t rung_of(std::size_t bin, int level, std::span<const Rung> ladder) {
  std::size_t r = 0;
  while (r + 1 < ladder.size() && bin >= first_bin(level, ladder[r + 1])) ++r;
  return r;
}

// The number of packs and super-groups in a bin and above it.
class Histogram {
 public:
  explicit Histogram(std::span<const WidthDemand> demands) {
    for (const WidthDemand& demand : demands) {
      packs_[bin_of(demand.need)] += demand.packs;
      ++super_groups_[bin_of(demand.need)];
    }
    for (std::size_t k = kBins; k-- > 0;) {
      packs_[k] += packs_[k + 1];
      super_groups_[k] += super_groups_[k + 1];
    }
  }

  std::size_t bytes_at(int level, std::span<const Rung> ladder) const {
    std::size_t bytes = cost(ladder[0], packs_[0], super_groups_[0]);
    for (std::size_t r = 1; r < ladder.size(); ++r) {
      const std::size_t bin = first_bin(level, ladder[r]);
      bytes += cost(ladder[r], packs_[bin], super_groups_[bin]) -
               cost(ladder[r - 1], packs_[bin], super_groups_[bin]);
    }
    return bytes;
  }

 private:
  std::array<std::size_t, kBins + 1> packs_{};
  std::array<std::size_t, kBins + 1> super_groups_{};
};

}  // namespace

void fill_to_level(std::span<WidthDemand> demands, std::span<const Rung> ladder,
                   std::size_t bytes) {
  const Histogram histogram(demands);
  // Find the lowest level that fits the budget. At `high` all super-groups have the first rung.
  int low = -ladder.back().threshold - 1;
  int high = static_cast<int>(kBins) - ladder[1].threshold;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (histogram.bytes_at(middle, ladder) <= bytes) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }

  // Spend the rest of the budget: the first super-groups use the next lower level, as long as they
  // fit.
  const std::size_t used = histogram.bytes_at(high, ladder);
  const std::size_t spare = bytes > used ? bytes - used : 0;
  std::size_t spent = 0;
  std::array<std::uint8_t, kBins> fits{};
  std::array<std::uint8_t, kBins> wider{};
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    fits[bin] = static_cast<std::uint8_t>(rung_of(bin, high, ladder));
    wider[bin] = static_cast<std::uint8_t>(rung_of(bin, high - 1, ladder));
  }
  for (WidthDemand& demand : demands) {
    const std::size_t bin = bin_of(demand.need);
    const Rung& rung = ladder[fits[bin]];
    const Rung& next = ladder[wider[bin]];
    spent += cost(next, demand.packs, 1) - cost(rung, demand.packs, 1);
    demand.width = spent <= spare ? next.width : rung.width;
  }
}

}  // namespace nf
