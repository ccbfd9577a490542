// The scalar reference of rotated. It follows docs/codecs/rotated.md line by line.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/rotated/rotated_kernels.h"
#include "codec/wire_bytes.h"

namespace nf {
namespace {

constexpr std::uint32_t kPacks = kSuperGroup / kPack;
constexpr auto kUp = kRotatedBits;
constexpr auto kDown = [] {
  auto bits = kRotatedBits;
  std::reverse(bits.begin(), bits.end());
  return bits;
}();

// The Walsh-Hadamard transform without its factor, one bit of the elements' numbers after the
// other.
void transform(const std::array<unsigned, 8>& bits, float* h) {
  for (const unsigned bit : bits) {
    const std::size_t half = std::size_t{1} << bit;
    for (std::size_t i = 0; i < kSuperGroup; ++i) {
      if ((i & half) != 0) continue;
      const float a = h[i];
      const float b = h[i + half];
      h[i] = a + b;
      h[i + half] = a - b;
    }
  }
}

void flip_signs(DrawKey key, std::uint32_t round, float* h) {
  for (std::uint32_t p = 0; p < kPacks; ++p) {
    const std::uint32_t word = draw_word(key, kPacks * round + p);
    for (std::size_t i = 0; i < kPack; ++i) {
      if ((word >> i & 1u) != 0) h[p * kPack + i] = -h[p * kPack + i];
    }
  }
}

void rotate(DrawKey key, float* h) {
  flip_signs(key, 0, h);
  transform(kUp, h);
  flip_signs(key, 1, h);
  transform(kDown, h);
}

// Without the factor 1 / 65536.
void rotate_back(DrawKey key, float* h) {
  transform(kUp, h);
  flip_signs(key, 1, h);
  transform(kDown, h);
  flip_signs(key, 0, h);
}

float sum_of(const float* terms) {
  float sums[kSuperGroup];
  std::copy(terms, terms + kSuperGroup, sums);
  for (const unsigned bit : kRotatedBits) {
    const std::size_t half = std::size_t{1} << bit;
    for (std::size_t i = 0; i < kSuperGroup; ++i) {
      if ((i & half) == 0) sums[i] += sums[i + half];
    }
  }
  return sums[0];
}

std::size_t level_index(unsigned width, float magnitude) {
  const float* first = rotated_thresholds_of(width) + 1;
  const float* last = first + rotated_levels(width) - 1;
  return static_cast<std::size_t>(std::upper_bound(first, last, magnitude) - first);
}

void encode_one(unsigned width, DrawKey key, float mean, const float* values, std::byte* unit_at,
                std::byte* codes) {
  float h[kSuperGroup];
  std::uint32_t peak = 0;
  for (std::size_t e = 0; e < kSuperGroup; ++e) {
    h[e] = values[e] - mean;
    peak = std::max(peak, magnitude_bits(h[e]));
  }
  if (peak >= kPoisonBits || peak < kMinPeakBits) {
    put_u16(peak >= kPoisonBits ? kBfloat16Nan : 0, unit_at);
    std::memset(codes, 0, kPacks * pack_bytes(width));
    return;
  }
  const std::uint32_t exponent = peak & kInfinityBits;
  const auto power = std::bit_cast<float>(exponent);
  const auto inverse_power = std::bit_cast<float>((254u << 23) - exponent);
  float terms[kSuperGroup];
  for (std::size_t e = 0; e < kSuperGroup; ++e) {
    h[e] *= inverse_power;
    terms[e] = h[e] * h[e];
  }
  const float norm = sum_of(terms);
  const float normalise = 0.0625f / std::sqrt(norm);
  rotate(key, h);
  std::uint32_t pack[kPack];
  for (std::size_t e = 0; e < kSuperGroup; ++e) {
    const float z = h[e] * normalise;
    const std::size_t level = level_index(width, std::abs(z));
    terms[e] = std::abs(z) * rotated_levels_of(width)[level];
    pack[e % kPack] =
        static_cast<std::uint32_t>(std::signbit(z) ? rotated_levels(width) + level : level);
    if (e % kPack == kPack - 1) pack_codes(pack, width, codes + e / kPack * pack_bytes(width));
  }
  const float unit = norm * normalise / sum_of(terms) * power;
  const std::uint32_t draw = draw_word(key, kRotatedUnitWord) & 0xffffu;
  put_u16(static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(unit) + draw) >> 16), unit_at);
}

// A super-group of width 0 is not sent: it decodes to its share of the mean.
void decode_left_out(const SuperGroups& groups, std::size_t i, float mean, float* values) {
  const float energy =
      bfloat16_to_float(get_u16(groups.statistics + i * kSuperGroupStatistics + 2));
  const float value = std::isfinite(energy) ? mean : std::numeric_limits<float>::quiet_NaN();
  std::fill(values, values + kSuperGroup, value);
}

void decode_one(unsigned width, DrawKey key, float mean, const std::byte* unit_at,
                const std::byte* codes, float* values) {
  const std::uint16_t unit_bits = get_u16(unit_at);
  if (unit_bits == kBfloat16Nan) {
    std::fill(values, values + kSuperGroup, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const float unit = bfloat16_to_float(unit_bits);
  float g[kSuperGroup];
  std::uint32_t pack[kPack];
  for (std::size_t e = 0; e < kSuperGroup; ++e) {
    if (e % kPack == 0) unpack_codes(codes + e / kPack * pack_bytes(width), width, pack);
    const std::size_t code = pack[e % kPack];
    const float level = rotated_levels_of(width)[code % rotated_levels(width)];
    g[e] = code >= rotated_levels(width) ? -level : level;
  }
  rotate_back(key, g);
  for (std::size_t e = 0; e < kSuperGroup; ++e) values[e] = std::fma(g[e], unit, mean);
}

// Calls work(i, width, position in the message) for every super-group i.
template <typename Wire, typename Work>
void for_each_super_group(const SuperGroups& groups, Wire wire, Work work) {
  for (std::size_t i = 0; i < groups.count; ++i) {
    const unsigned width = groups.width_of(i);
    work(i, width, wire);
    if (width == 0) continue;
    wire.units += 2;
    wire.codes += kPacks * pack_bytes(width);
  }
}

void encode(const SuperGroups& groups, const DrawStream& draws, float contributions,
            const float* values, MessageKernels::Out wire) {
  for_each_super_group(groups, wire, [&](std::size_t i, unsigned width, auto at) {
    if (width == 0) return;
    encode_one(width, DrawKey(draws, groups.first + i), contributions * groups.mean_of(i),
               values + i * kSuperGroup, at.units, at.codes);
  });
}

void decode_any(const SuperGroups& groups, std::size_t i, unsigned width, const DrawStream& draws,
                float contributions, MessageKernels::In at, float* values) {
  const float mean = contributions * groups.mean_of(i);
  if (width == 0) {
    decode_left_out(groups, i, mean, values);
  } else {
    decode_one(width, DrawKey(draws, groups.first + i), mean, at.units, at.codes, values);
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
    float sum[kSuperGroup];
    decode_any(groups, i, width, draws_in, contributions, at, sum);
    for (std::size_t e = 0; e < kSuperGroup; ++e) sum[e] = values[i * kSuperGroup + e] + sum[e];
    encode_one(width, DrawKey(draws_out, groups.first + i), total * groups.mean_of(i), sum,
               out.units, out.codes);
    out.units += 2;
    out.codes += kPacks * pack_bytes(width);
  });
}

constexpr MessageKernels kReference = {encode, decode, decode_add, decode_add_encode};

}  // namespace

const MessageKernels& rotated_reference() { return kReference; }

}  // namespace nf
