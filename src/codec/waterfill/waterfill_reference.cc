// The scalar reference of waterfill, line for line from docs/codecs/waterfill.md.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/waterfill/waterfill_kernels.h"
#include "codec/wire_bytes.h"

namespace nf {
namespace {

constexpr std::size_t kGroupsPerSuperGroup = kSuperGroup / kGroup;

// The dither of one element, 1 + (draw + 1/2) / 65536.
float dither_of(DrawKey key, std::size_t element) {
  return std::bit_cast<float>(kDitherBits | draw16(key, static_cast<std::uint32_t>(element)) << 7);
}

float mean_of(const SuperGroups& groups, std::size_t i) {
  return bfloat16_to_float(get_u16(groups.statistics + i * kSuperGroupStatistics));
}

// The u8 scale of a group: the least multiple of the unit that is not below the peak.
unsigned scale_of(float peak, float unit) {
  auto scale = static_cast<unsigned>(peak / unit);
  if (static_cast<float>(scale) * unit < peak) ++scale;
  return std::min(scale, 255u);
}

void encode_one(const WaterfillGrid& grid, unsigned width, DrawKey key, float mean,
                const float* values, std::byte* unit_at, std::byte* scales, std::byte* codes) {
  float centred[kSuperGroup];
  std::uint32_t peaks[kGroupsPerSuperGroup] = {};
  std::uint32_t peak = 0;
  for (std::size_t e = 0; e < kSuperGroup; ++e) {
    centred[e] = values[e] - mean;
    peaks[e / kGroup] = std::max(peaks[e / kGroup], magnitude_bits(centred[e]));
    peak = std::max(peak, magnitude_bits(centred[e]));
  }
  if (peak >= kPoisonBits || peak < kLeastPeakBits) {
    put_u16(peak >= kPoisonBits ? kBfloat16Nan : 0, unit_at);
    std::memset(scales, 0, kGroupsPerSuperGroup);
    std::memset(codes, 0, kGroupsPerSuperGroup * group_bytes(width));
    return;
  }
  const std::uint16_t unit_bits = float_to_bfloat16_up(std::bit_cast<float>(peak) * kPeakToUnit);
  const float unit = bfloat16_to_float(unit_bits);
  put_u16(unit_bits, unit_at);
  for (std::size_t g = 0; g < kGroupsPerSuperGroup; ++g) {
    const unsigned scale = scale_of(std::bit_cast<float>(peaks[g]), unit);
    scales[g] = static_cast<std::byte>(scale);
    const float step = static_cast<float>(scale) * unit * grid.step;
    const float inverse = scale == 0 ? 0.0f : 1.0f / step;
    std::uint32_t group_codes[kGroup];
    for (std::size_t j = 0; j < kGroup; ++j) {
      const std::size_t e = g * kGroup + j;
      const float position = std::fma(centred[e], inverse, dither_of(key, e));
      group_codes[j] = static_cast<std::uint32_t>(std::nearbyint(position) + grid.centre);
    }
    pack_group(group_codes, width, codes + g * group_bytes(width));
  }
}

void decode_one(const WaterfillGrid& grid, unsigned width, DrawKey key, float mean,
                const std::byte* unit_at, const std::byte* scales, const std::byte* codes,
                float* values) {
  const std::uint16_t unit_bits = get_u16(unit_at);
  if (unit_bits == kBfloat16Nan) {
    std::fill(values, values + kSuperGroup, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const float unit = bfloat16_to_float(unit_bits);
  for (std::size_t g = 0; g < kGroupsPerSuperGroup; ++g) {
    const float step = static_cast<float>(std::to_integer<unsigned>(scales[g])) * unit * grid.step;
    const float base = std::fma(-grid.centre, step, mean);
    std::uint32_t group_codes[kGroup];
    unpack_group(codes + g * group_bytes(width), width, group_codes);
    for (std::size_t j = 0; j < kGroup; ++j) {
      const std::size_t e = g * kGroup + j;
      const float level = static_cast<float>(group_codes[j]) - dither_of(key, e);
      values[e] = std::fma(level, step, base);
    }
  }
}

// Calls work(i, width, place of super-group i in the message) for every super-group.
template <typename Wire, typename Work>
void for_each_super_group(const SuperGroups& groups, Wire wire, Work work) {
  for (std::size_t i = 0; i < groups.count; ++i) {
    const unsigned width = groups.width_of(i);
    work(i, width, wire);
    wire.units += 2;
    wire.scales += kGroupsPerSuperGroup;
    wire.codes += kGroupsPerSuperGroup * group_bytes(width);
  }
}

void encode(const SuperGroups& groups, const DrawStream& draws, float contributions,
            const float* values, WaterfillKernels::Out wire) {
  for_each_super_group(groups, wire, [&](std::size_t i, unsigned width, auto at) {
    encode_one(WaterfillGrid(width), width, DrawKey(draws, groups.first + i),
               contributions * mean_of(groups, i), values + i * kSuperGroup, at.units, at.scales,
               at.codes);
  });
}

void decode(const SuperGroups& groups, const DrawStream& draws, float contributions,
            WaterfillKernels::In wire, float* values) {
  for_each_super_group(groups, wire, [&](std::size_t i, unsigned width, auto at) {
    decode_one(WaterfillGrid(width), width, DrawKey(draws, groups.first + i),
               contributions * mean_of(groups, i), at.units, at.scales, at.codes,
               values + i * kSuperGroup);
  });
}

void decode_add(const SuperGroups& groups, const DrawStream& draws, float contributions,
                WaterfillKernels::In wire, float* values) {
  for_each_super_group(groups, wire, [&](std::size_t i, unsigned width, auto at) {
    float decoded[kSuperGroup];
    decode_one(WaterfillGrid(width), width, DrawKey(draws, groups.first + i),
               contributions * mean_of(groups, i), at.units, at.scales, at.codes, decoded);
    for (std::size_t e = 0; e < kSuperGroup; ++e) values[i * kSuperGroup + e] += decoded[e];
  });
}

void decode_add_encode(const SuperGroups& groups, const DrawStream& draws_in,
                       const DrawStream& draws_out, float contributions, float total,
                       WaterfillKernels::In wire, const float* values, WaterfillKernels::Out out) {
  for_each_super_group(groups, wire, [&](std::size_t i, unsigned width, auto at) {
    const WaterfillGrid grid(width);
    float sum[kSuperGroup];
    decode_one(grid, width, DrawKey(draws_in, groups.first + i), contributions * mean_of(groups, i),
               at.units, at.scales, at.codes, sum);
    for (std::size_t e = 0; e < kSuperGroup; ++e) sum[e] = values[i * kSuperGroup + e] + sum[e];
    encode_one(grid, width, DrawKey(draws_out, groups.first + i), total * mean_of(groups, i), sum,
               out.units, out.scales, out.codes);
    out.units += 2;
    out.scales += kGroupsPerSuperGroup;
    out.codes += kGroupsPerSuperGroup * group_bytes(width);
  });
}

constexpr WaterfillKernels kReference = {encode, decode, decode_add, decode_add_encode};

}  // namespace

const WaterfillKernels& waterfill_reference() { return kReference; }

}  // namespace nf
