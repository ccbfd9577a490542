// Super-groups of waterfill, dynamiq and rotated: 256 consecutive values of a parameter that share
// a width, a mean and a scale unit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/float16.h"
#include "base/random.h"
#include "codec/wire_bytes.h"
#include "neuron_fabric/codec.h"

namespace nf {

inline constexpr std::size_t kSuperGroup = 256;
static_assert(kSuperGroup == kDrawBlock);

constexpr std::size_t super_groups_of(std::size_t count) {
  return (count + kSuperGroup - 1) / kSuperGroup;
}

// Statistics of a super-group on the wire: its mean, then its energy about the mean, both BF16.
inline constexpr std::size_t kSuperGroupStatistics = 4;

// A super-group with a magnitude of at least this, or with a NaN, is poisoned: it decodes to NaN.
inline constexpr std::uint32_t kPoisonBits = 0x7e800000u;  // 2^126
// A super-group whose magnitudes are all below this is sent as zeros: reciprocals would overflow.
inline constexpr std::uint32_t kMinPeakBits = 0x0d800000u;  // 2^-100

// Consecutive super-groups of a slice, the input of kernels.
struct SuperGroups {
  std::size_t count = 0;
  std::uint64_t first = 0;                // index of the first one in its parameter
  const std::byte* statistics = nullptr;  // from the first one on; null if all means are 0
  const std::uint8_t* widths = nullptr;   // from the first one on; null if all have `width`
  unsigned width = 0;
  std::uint32_t ranks = 1;

  unsigned width_of(std::size_t i) const { return widths != nullptr ? widths[i] : width; }
  float mean_of(std::size_t i) const {
    if (statistics == nullptr) return 0;
    return bfloat16_to_float(get_u16(statistics + i * kSuperGroupStatistics));
  }

  // All but the first i super-groups.
  SuperGroups from(std::size_t i) const {
    SuperGroups rest = *this;
    rest.count -= i;
    rest.first += i;
    if (statistics != nullptr) rest.statistics += i * kSuperGroupStatistics;
    if (widths != nullptr) rest.widths += i;
    return rest;
  }
};

// The arrays of a message (docs/wire_format.md), from the first of these super-groups on.
template <typename Byte>
struct SuperGroupWire {
  Byte* units = nullptr;   // BF16 per super-group
  Byte* scales = nullptr;  // a byte per 16 values in dynamiq, per 32 in waterfill, none in rotated
  Byte* codes = nullptr;
};

// The mean of `count` <= 256 values and their energy about it, summed in the order of
// docs/wire_format.md.
void super_group_statistics(const float* values, std::size_t count, std::byte* out);

// Combines the ranks' statistics of the super-groups of `count` values: the mean of means, the sum
// of energies. If the mean accounts for less than 1/32 of the energy of the sum of independent
// ranks, it is not worth removing and becomes 0.
void combine_super_group_statistics(std::size_t count,
                                    std::span<const std::span<const std::byte>> by_rank,
                                    std::span<std::byte> combined);

}  // namespace nf
