#include "codec/dynamiq/dynamiq_widths.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/super_group.h"
#include "codec/wire_bytes.h"

namespace nf {
namespace {

// An energy falls into a bin by its exponent and the top three bits of its mantissa: an eighth of
// an octave, and the same bin on every machine.
constexpr int kBins = 256 * 8;
// From the first bin of 4 bits to the first of 8: 8 log2(512/17) = 39.3.
constexpr int kBand = 39;

std::size_t bin_of(float energy) {
  if (!(energy > 0)) return energy == energy ? 0 : kBins - 1;  // NaN: poisoned, count it as loud
  return std::bit_cast<std::uint32_t>(energy) >> 20;
}

unsigned width_at(std::size_t bin, int level) {
  const int above = static_cast<int>(bin) - level;
  return above < 0 ? 2 : above < kBand ? 4 : 8;
}

// Calls work(bin, groups of 32 values, width) for every super-group.
template <typename Work>
void for_each_super_group(std::span<const WidthRequest> parameters, std::uint32_t ranks,
                          Work work) {
  for (const WidthRequest& parameter : parameters) {
    for (std::size_t j = 0; j < super_groups_of(parameter.count); ++j) {
      const std::byte* at = parameter.statistics.data() + j * kSuperGroupStatistics;
      const float mean = bfloat16_to_float(get_u16(at));
      const float about_mean = bfloat16_to_float(get_u16(at + 2));
      const std::size_t held = std::min(kSuperGroup, parameter.count - j * kSuperGroup);
      const float values = static_cast<float>(held) * static_cast<float>(ranks);
      const float energy = about_mean + values * (mean * mean);
      work(bin_of(energy), groups_of(held), parameter.widths[j]);
    }
  }
}

}  // namespace

void fit_dynamiq_widths(std::span<const WidthRequest> parameters, std::uint32_t ranks,
                        std::size_t code_bytes) {
  // groups_from[k] = groups of the super-groups in bins k and above.
  std::array<std::size_t, kBins + 1> groups_from{};
  for_each_super_group(parameters, ranks, [&](std::size_t bin, std::size_t groups, std::uint8_t&) {
    groups_from[bin] += groups;
  });
  for (std::size_t k = kBins; k-- > 0;) groups_from[k] += groups_from[k + 1];

  const auto groups_above = [&](int bin) {
    return groups_from[static_cast<std::size_t>(std::clamp(bin, 0, kBins))];
  };
  const auto bytes_at = [&](int level) {
    return group_bytes(2) * groups_above(0) + group_bytes(2) * groups_above(level) +
           group_bytes(4) * groups_above(level + kBand);
  };

  // The lowest level that fits, from "all have 8 bits" to "all have 2".
  int low = -kBand;
  int high = kBins;
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
  for_each_super_group(
      parameters, ranks, [&](std::size_t bin, std::size_t groups, std::uint8_t& width) {
        const unsigned fits = width_at(bin, high);
        const unsigned wider = width_at(bin, high - 1);
        const std::size_t extra = groups * (group_bytes(wider) - group_bytes(fits));
        const bool widen = extra <= spare;
        width = static_cast<std::uint8_t>(widen ? wider : fits);
        if (widen) spare -= extra;
      });
}

}  // namespace nf
