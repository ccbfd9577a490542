// The scalar reference of dynamiq. It follows docs/codecs/dynamiq.md line by line.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/dynamiq/dynamiq_kernels.h"
#include "codec/wire_bytes.h"

namespace nf {
namespace {

constexpr std::size_t kScales = kSuperGroup / kDynamiqGroup;
constexpr std::size_t kPacks = kSuperGroup / kPack;

float mean_of(const SuperGroups& groups, std::size_t i) {
  return bfloat16_to_float(get_u16(groups.statistics + i * kSuperGroupStatistics));
}

// The draws of one super-group.
class SuperGroupDraws {
 public:
  SuperGroupDraws(const DynamiqDraws& draws, std::uint64_t super_group)
      : draws_(draws),
        rounding_(draws.rounding, super_group),
        group_scale_(draws.group_scale, super_group),
        shared_(draws.shared, super_group),
        shift_(draws.shift(shared_)) {}

  // The draw of the scale of group g, in (0, 1).
  float scale_draw(std::size_t g) const {
    const auto draw = static_cast<float>(draw16(group_scale_, static_cast<std::uint32_t>(g)));
    return std::fma(draw, 0x1p-16f, 0x1p-17f);
  }

  // The draw of an element, an integer below 65536 n.
  float rounding_draw(std::size_t element) const {
    const auto e = static_cast<std::uint32_t>(element);
    const std::uint32_t c = DynamiqDraws::shared_draw(shared_, e) * draws_.strata >> 16;
    const std::uint32_t stratum = (shift_ + c) % draws_.strata;
    return static_cast<float>(stratum * 65536 + draw16(rounding_, e));
  }
  // The fraction of a step per unit of a draw.
  float slope() const { return draws_.slope; }

 private:
  const DynamiqDraws& draws_;
  const DrawKey rounding_;
  const DrawKey group_scale_;
  const DrawKey shared_;
  const std::uint32_t shift_;
};

// Whether `position` is above the threshold between two neighbouring values.
bool is_above(float position, float low, float high, float draw, float slope) {
  const float height = (high - low) * slope;
  return std::fma(draw, height, std::fma(0.5f, height, low)) < position;
}

// The signed magnitude of the value that `position` rounds to. Thresholds are ascending: the search
// ends at the first threshold that is not below `position`.
int round(const DynamiqLattice& lattice, float position, float draw, float slope) {
  const int top = static_cast<int>(lattice.top);
  const auto value = [&](int m) {
    return m < 0 ? -lattice.level[static_cast<std::size_t>(-m)]
                 : lattice.level[static_cast<std::size_t>(m)];
  };
  int m = -top;
  while (m < top && is_above(position, value(m), value(m + 1), draw, slope)) ++m;
  return m;
}

void encode_one(const DynamiqLattice& lattice, unsigned width, const SuperGroupDraws& draws,
                float mean, const float* values, DynamiqKernels::Out wire) {
  float centred[kSuperGroup];
  std::uint32_t peaks[kScales] = {};
  std::uint32_t peak = 0;
  for (std::size_t e = 0; e < kSuperGroup; ++e) {
    centred[e] = values[e] - mean;
    const std::uint32_t magnitude = magnitude_bits(centred[e]);
    peaks[e / kDynamiqGroup] = std::max(peaks[e / kDynamiqGroup], magnitude);
    peak = std::max(peak, magnitude);
  }
  if (peak >= kPoisonBits || peak < kMinPeakBits) {
    put_u16(peak >= kPoisonBits ? kBfloat16Nan : 0, wire.units);
    std::memset(wire.scales, 0, kScales);
    std::memset(wire.codes, 0, kPacks * pack_bytes(width));
    return;
  }
  const std::uint16_t unit_bits = float_to_bfloat16_up(std::bit_cast<float>(peak) * kPeakToUnit);
  const float unit = bfloat16_to_float(unit_bits);
  put_u16(unit_bits, wire.units);
  std::uint32_t codes[kSuperGroup];
  for (std::size_t g = 0; g < kScales; ++g) {
    const auto group_peak = std::bit_cast<float>(peaks[g]);
    const auto scale =
        std::min(255u, static_cast<unsigned>(group_peak / unit + draws.scale_draw(g)));
    wire.scales[g] = static_cast<std::byte>(scale);
    const float inverse =
        scale == 0 ? 0.0f : static_cast<float>(lattice.top) / std::max(group_peak, kMinGroupPeak);
    for (std::size_t e = g * kDynamiqGroup; e < (g + 1) * kDynamiqGroup; ++e) {
      const int m = round(lattice, centred[e] * inverse, draws.rounding_draw(e), draws.slope());
      codes[e] =
          m < 0 ? lattice.top + 1 + static_cast<std::uint32_t>(-m) : static_cast<std::uint32_t>(m);
    }
  }
  for (std::size_t p = 0; p < kPacks; ++p) {
    pack_codes(codes + p * kPack, width, wire.codes + p * pack_bytes(width));
  }
}

void decode_one(const DynamiqLattice& lattice, unsigned width, float mean, DynamiqKernels::In wire,
                float* values) {
  const std::uint16_t unit_bits = get_u16(wire.units);
  if (unit_bits == kBfloat16Nan) {
    std::fill(values, values + kSuperGroup, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const float unit = bfloat16_to_float(unit_bits);
  std::uint32_t codes[kSuperGroup];
  for (std::size_t p = 0; p < kPacks; ++p) {
    unpack_codes(wire.codes + p * pack_bytes(width), width, codes + p * kPack);
  }
  for (std::size_t e = 0; e < kSuperGroup; ++e) {
    const auto scale =
        static_cast<float>(std::to_integer<unsigned>(wire.scales[e / kDynamiqGroup]));
    const float step = scale * unit * lattice.inverse_top;
    const float level = lattice.level[codes[e] & lattice.top];
    const bool negative = codes[e] > lattice.top;
    values[e] = std::fma(negative ? -level : level, step, mean);
  }
}

// Calls work(i, width, position in the message) for every super-group i.
template <typename Wire, typename Work>
void for_each_super_group(const SuperGroups& groups, Wire wire, Work work) {
  for (std::size_t i = 0; i < groups.count; ++i) {
    const unsigned width = groups.width_of(i);
    work(i, width, wire);
    wire.units += 2;
    wire.scales += kScales;
    wire.codes += kPacks * pack_bytes(width);
  }
}

void encode(const SuperGroups& groups, const DynamiqDraws& draws, bool uniform, float contributions,
            const float* values, DynamiqKernels::Out wire) {
  for_each_super_group(groups, wire, [&](std::size_t i, unsigned width, auto at) {
    encode_one(dynamiq_lattice(width, uniform), width, SuperGroupDraws(draws, groups.first + i),
               contributions * mean_of(groups, i), values + i * kSuperGroup, at);
  });
}

void decode(const SuperGroups& groups, bool uniform, float contributions, DynamiqKernels::In wire,
            float* values) {
  for_each_super_group(groups, wire, [&](std::size_t i, unsigned width, auto at) {
    decode_one(dynamiq_lattice(width, uniform), width, contributions * mean_of(groups, i), at,
               values + i * kSuperGroup);
  });
}

void decode_add(const SuperGroups& groups, bool uniform, float contributions,
                DynamiqKernels::In wire, float* values) {
  for_each_super_group(groups, wire, [&](std::size_t i, unsigned width, auto at) {
    float decoded[kSuperGroup];
    decode_one(dynamiq_lattice(width, uniform), width, contributions * mean_of(groups, i), at,
               decoded);
    for (std::size_t e = 0; e < kSuperGroup; ++e) values[i * kSuperGroup + e] += decoded[e];
  });
}

void decode_add_encode(const SuperGroups& groups, const DynamiqDraws& draws, bool uniform,
                       float contributions, float total, DynamiqKernels::In wire,
                       const float* values, DynamiqKernels::Out out) {
  for_each_super_group(groups, wire, [&](std::size_t i, unsigned width, auto at) {
    const DynamiqLattice& lattice = dynamiq_lattice(width, uniform);
    float sum[kSuperGroup];
    decode_one(lattice, width, contributions * mean_of(groups, i), at, sum);
    for (std::size_t e = 0; e < kSuperGroup; ++e) sum[e] = values[i * kSuperGroup + e] + sum[e];
    encode_one(lattice, width, SuperGroupDraws(draws, groups.first + i), total * mean_of(groups, i),
               sum, out);
    out.units += 2;
    out.scales += kScales;
    out.codes += kPacks * pack_bytes(width);
  });
}

constexpr DynamiqKernels kReference = {encode, decode, decode_add, decode_add_encode};

}  // namespace

const DynamiqKernels& dynamiq_reference() { return kReference; }

}  // namespace nf
