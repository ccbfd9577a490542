// Super-groups: 256 consecutive values of a parameter that share a width, a mean and a scale unit.
// What waterfill and dynamiq have in common.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "neuron_fabric/codec.h"

namespace nf {

inline constexpr std::size_t kSuperGroup = 256;
static_assert(kSuperGroup == kDrawBlock);

constexpr std::size_t super_groups_of(std::size_t count) {
  return (count + kSuperGroup - 1) / kSuperGroup;
}

// Statistics of a super-group on the wire: its mean, then its energy about the mean, both BF16.
inline constexpr std::size_t kSuperGroupStatistics = 4;

// Magnitudes from here on (and NaN, by its bits) poison their super-group: it decodes to NaN.
inline constexpr std::uint32_t kPoisonBits = 0x7e800000u;  // 2^126
// A super-group whose magnitudes all lie below is sent as zeros: reciprocals would overflow.
inline constexpr std::uint32_t kLeastPeakBits = 0x0d800000u;  // 2^-100

// Consecutive super-groups of a slice, as the kernels of waterfill and dynamiq see them.
struct SuperGroups {
  std::size_t count = 0;
  std::uint64_t first = 0;                // index of the first one in its parameter
  const std::byte* statistics = nullptr;  // of the first one
  const std::uint8_t* widths = nullptr;   // of the first one, or null where all have `width`
  unsigned width = 0;
  std::uint32_t ranks = 1;

  unsigned width_of(std::size_t i) const { return widths != nullptr ? widths[i] : width; }

  // These without the first i.
  SuperGroups from(std::size_t i) const {
    SuperGroups rest = *this;
    rest.count -= i;
    rest.first += i;
    rest.statistics += i * kSuperGroupStatistics;
    if (widths != nullptr) rest.widths += i;
    return rest;
  }
};

// The arrays of a message, at the first of these super-groups (docs/wire_format.md).
template <typename Byte>
struct SuperGroupWire {
  Byte* units = nullptr;   // BF16 per super-group
  Byte* scales = nullptr;  // a byte for 16 values in dynamiq, for 32 in waterfill
  Byte* codes = nullptr;
};

// Mean and energy about it of `count` (at most 256) values, in the order of docs/wire_format.md.
void super_group_statistics(const float* values, std::size_t count, std::byte* out);

// Adds up the ranks' statistics of the super-groups of `count` values: the mean of means, the sum
// of energies. A mean that would make up less than 1/32 of the energy of the sum, were the ranks
// independent, is not worth removing and becomes 0.
void combine_super_group_statistics(std::size_t count,
                                    std::span<const std::span<const std::byte>> by_rank,
                                    std::span<std::byte> combined);

}  // namespace nf
