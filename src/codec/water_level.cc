#include "codec/water_level.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

namespace nf {
namespace {

// The bin of a need is its exponent and the top three bits of its mantissa: an eighth of an octave,
// and the same bin on every host.
constexpr unsigned kBinsPerOctave = 8;
constexpr std::size_t kBins = 256 * kBinsPerOctave;
constexpr std::size_t kMostRungs = 16;

std::size_t bin_of(float need) {
  if (!(need > 0)) return need == need ? 0 : kBins - 1;  // NaN counts as the largest need
  return std::bit_cast<std::uint32_t>(need) >> 20;
}

// The widths of all needs at one level.
class Level {
 public:
  Level(int level, std::span<const Rung> ladder) : ladder_(ladder) {
    for (std::size_t r = 1; r < ladder.size(); ++r) {
      first_bins_[r] = static_cast<std::size_t>(
          std::clamp(level + ladder[r].threshold, 0, static_cast<int>(kBins)));
    }
  }

  // The first bin whose needs get rung r > 0 or a higher one.
  std::size_t first_bin(std::size_t r) const { return first_bins_[r]; }

  const Rung& rung_of(std::size_t bin) const {
    std::size_t r = 0;
    while (r + 1 < ladder_.size() && bin >= first_bins_[r + 1]) ++r;
    return ladder_[r];
  }

 private:
  const std::span<const Rung> ladder_;
  std::array<std::size_t, kMostRungs> first_bins_;  // of rung 0: unused
};

std::size_t cost(const Rung& rung, std::size_t packs, std::size_t super_groups) {
  return rung.pack_bytes * packs + rung.bytes * super_groups;
}

// The number of packs and super-groups in a bin and above it. Covers only the bins between the
// smallest and the largest need: a tile has few super-groups, and their needs differ by far less
// than floats can.
class Histogram {
 public:
  explicit Histogram(std::span<const WidthDemand> demands) {
    begin_ = kBins;
    for (const WidthDemand& demand : demands) {
      const std::size_t bin = bin_of(demand.need);
      begin_ = std::min(begin_, bin);
      end_ = std::max(end_, bin + 1);
    }
    begin_ = std::min(begin_, end_);
    std::fill(above_.begin() + begin_, above_.begin() + end_ + 1, Count{});
    for (const WidthDemand& demand : demands) {
      Count& count = above_[bin_of(demand.need)];
      count.packs += demand.packs;
      ++count.super_groups;
    }
    for (std::size_t k = end_; k-- > begin_;) {
      above_[k].packs += above_[k + 1].packs;
      above_[k].super_groups += above_[k + 1].super_groups;
    }
  }

  std::size_t bytes_at(int level, std::span<const Rung> ladder) const {
    const Level widths(level, ladder);
    std::size_t bytes = cost(ladder[0], above_[begin_].packs, above_[begin_].super_groups);
    for (std::size_t r = 1; r < ladder.size(); ++r) {
      const Count& count = above_[std::clamp(widths.first_bin(r), begin_, end_)];
      bytes += cost(ladder[r], count.packs, count.super_groups) -
               cost(ladder[r - 1], count.packs, count.super_groups);
    }
    return bytes;
  }

 private:
  struct Count {
    std::size_t packs;
    std::size_t super_groups;
  };

  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::array<Count, kBins + 1> above_;  // set from begin_ to end_
};

}  // namespace

void fill_to_level(std::span<WidthDemand> demands, std::span<const Rung> ladder,
                   std::size_t bytes) {
  assert(ladder.size() <= kMostRungs);
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
  const Level level(high, ladder);
  const Level lower(high - 1, ladder);
  for (WidthDemand& demand : demands) {
    const std::size_t bin = bin_of(demand.need);
    const Rung& rung = level.rung_of(bin);
    const Rung& next = lower.rung_of(bin);
    spent += cost(next, demand.packs, 1) - cost(rung, demand.packs, 1);
    demand.width = spent <= spare ? next.width : rung.width;
  }
}

}  // namespace nf
