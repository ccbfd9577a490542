// The scalar reference of waterfill. It follows docs/codecs/waterfill.md line by line.
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

constexpr std::size_t kScalesPerSuperGroup = kSuperGroup / kWaterfillGroup;
constexpr std::size_t kPacks = kSuperGroup / kPack;
constexpr std::size_t kScaleBytes = kScalesPerSuperGroup / 2;

// The dither of one element, 1 + (draw + 1/2) / 65536.
float dither_of(DrawKey key, std::size_t element) {
  return std::bit_cast<float>(kDitherBits | draw16(key, static_cast<std::uint32_t>(element)) << 7);
}

// The scale of a group: the smallest scale that is at least the peak.
unsigned scale_of(float peak, float unit) {
  if (peak == 0) return 0;
  auto scale = static_cast<unsigned>(peak / unit);
  if (static_cast<float>(scale) * unit < peak) ++scale;
  return std::clamp(scale, kMinScale, kMaxScale);
}

// Scale g of a super-group, two per byte.
unsigned get_scale(const std::byte* scales, std::size_t g) {
  return code_to_scale(std::to_integer<unsigned>(scales[g / 2]) >> (g % 2 * 4) & 15u);
}

void encode_one(const WaterfillGrid& grid, unsigned width, DrawKey key, float mean,
                const float* values, std::byte* unit_at, std::byte* scales, std::byte* codes) {
  float centred[kSuperGroup];
  std::uint32_t peaks[kScalesPerSuperGroup] = {};
  std::uint32_t peak = 0;
  for (std::size_t e = 0; e < kSuperGroup; ++e) {
    centred[e] = values[e] - mean;
    std::uint32_t& group_peak = peaks[e / kWaterfillGroup];
    group_peak = std::max(group_peak, magnitude_bits(centred[e]));
    peak = std::max(peak, magnitude_bits(centred[e]));
  }
  std::memset(scales, 0, kScaleBytes);
  if (peak >= kPoisonBits || peak < kMinPeakBits) {
    put_u16(peak >= kPoisonBits ? kBfloat16Nan : 0, unit_at);
    std::memset(codes, 0, kPacks * pack_bytes(width));
    return;
  }
  const std::uint16_t unit_bits =
      float_to_bfloat16_up(std::bit_cast<float>(peak) * kPeakToScaleUnit);
  const float unit = bfloat16_to_float(unit_bits);
  put_u16(unit_bits, unit_at);
  std::uint32_t pack[kPack];
  for (std::size_t g = 0; g < kScalesPerSuperGroup; ++g) {
    const unsigned scale = scale_of(std::bit_cast<float>(peaks[g]), unit);
    scales[g / 2] |= static_cast<std::byte>(scale_to_code(scale) << (g % 2 * 4));
    const float step = static_cast<float>(scale) * unit * grid.step;
    const float inverse = scale == 0 ? 0.0f : 1.0f / step;
    for (std::size_t e = g * kWaterfillGroup; e < (g + 1) * kWaterfillGroup; ++e) {
      const float position = std::fma(centred[e], inverse, dither_of(key, e));
      pack[e % kPack] = static_cast<std::uint32_t>(std::nearbyint(position) + grid.centre);
    }
    if (g % 2 == 1) pack_codes(pack, width, codes + g / 2 * pack_bytes(width));
  }
}

// A super-group of width 0 is not sent: it decodes to its share of the mean.
void decode_left_out(const SuperGroups& groups, std::size_t i, float mean, float* values) {
  const float energy =
      bfloat16_to_float(get_u16(groups.statistics + i * kSuperGroupStatistics + 2));
  const float value = std::isfinite(energy) ? mean : std::numeric_limits<float>::quiet_NaN();
  std::fill(values, values + kSuperGroup, value);
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
  std::uint32_t pack[kPack];
  for (std::size_t e = 0; e < kSuperGroup; ++e) {
    if (e % kPack == 0) unpack_codes(codes + e / kPack * pack_bytes(width), width, pack);
    const auto scale = static_cast<float>(get_scale(scales, e / kWaterfillGroup));
    const float step = scale * unit * grid.step;
    const float base = std::fma(-grid.centre, step, mean);
    const float level = static_cast<float>(pack[e % kPack]) - dither_of(key, e);
    values[e] = std::fma(level, step, base);
  }
}

// Calls work(i, width, position in the message) for every super-group i.
template <typename Wire, typename Work>
void for_each_super_group(const SuperGroups& groups, Wire wire, Work work) {
  for (std::size_t i = 0; i < groups.count; ++i) {
    const unsigned width = groups.width_of(i);
    work(i, width, wire);
    if (width == 0) continue;
    wire.units += 2;
    wire.scales += kScaleBytes;
    wire.codes += kPacks * pack_bytes(width);
  }
}

void encode(const SuperGroups& groups, const DrawStream& draws, float contributions,
            const float* values, MessageKernels::Out wire) {
  for_each_super_group(groups, wire, [&](std::size_t i, unsigned width, auto at) {
    if (width == 0) return;
    encode_one(WaterfillGrid(width), width, DrawKey(draws, groups.first + i),
               contributions * groups.mean_of(i), values + i * kSuperGroup, at.units, at.scales,
               at.codes);
  });
}

void decode_any(const SuperGroups& groups, std::size_t i, unsigned width, const DrawStream& draws,
                float contributions, MessageKernels::In at, float* values) {
  const float mean = contributions * groups.mean_of(i);
  if (width == 0) {
    decode_left_out(groups, i, mean, values);
  } else {
    decode_one(WaterfillGrid(width), width, DrawKey(draws, groups.first + i), mean, at.units,
               at.scales, at.codes, values);
  }
}

void decode(const SuperGroups& groups, const DrawStream& draws, float contributions,
            MessageKernels::In wire, float* values) {
  for_each_super_group(groups, wire, [&](std::size_t i, unsigned width, auto at) {
    decode_any(groups, i, width, draws, contributions, at, values + i * kSuperGroup);
  });
}

void decode_add(const SuperGroups& groups, const DrawStream& draws, float contributions,
                MessageKernels::In wire, float* values) {
  for_each_super_group(groups, wire, [&](std::size_t i, unsigned width, auto at) {
    float decoded[kSuperGroup];
    decode_any(groups, i, width, draws, contributions, at, decoded);
    for (std::size_t e = 0; e < kSuperGroup; ++e) values[i * kSuperGroup + e] += decoded[e];
  });
}

void decode_add_encode(const SuperGroups& groups, const DrawStream& draws_in,
                       const DrawStream& draws_out, float contributions, float total,
                       MessageKernels::In wire, const float* values, MessageKernels::Out out) {
  for_each_super_group(groups, wire, [&](std::size_t i, unsigned width, auto at) {
    if (width == 0) return;
    const WaterfillGrid grid(width);
    float sum[kSuperGroup];
    decode_one(grid, width, DrawKey(draws_in, groups.first + i), contributions * groups.mean_of(i),
               at.units, at.scales, at.codes, sum);
    for (std::size_t e = 0; e < kSuperGroup; ++e) sum[e] = values[i * kSuperGroup + e] + sum[e];
    encode_one(grid, width, DrawKey(draws_out, groups.first + i), total * groups.mean_of(i), sum,
               out.units, out.scales, out.codes);
    out.units += 2;
    out.scales += kScaleBytes;
    out.codes += kPacks * pack_bytes(width);
  });
}

constexpr MessageKernels kReference = {encode, decode, decode_add, decode_add_encode};

}  // namespace

const MessageKernels& waterfill_reference() { return kReference; }

}  // namespace nf
