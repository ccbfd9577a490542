#include "codec/width_rule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/float16.h"
#include "codec/codes.h"
#include "codec/super_group.h"
#include "codec/wire_bytes.h"

namespace nf {
namespace {

float mean_of(const WidthRequest& parameter, std::size_t j) {
  return bfloat16_to_float(get_u16(parameter.statistics.data() + j * kSuperGroupStatistics));
}

float energy_of(const WidthRequest& parameter, std::size_t j) {
  return bfloat16_to_float(get_u16(parameter.statistics.data() + j * kSuperGroupStatistics + 2));
}

// The sum over all super-groups of finite energy, in the order in which a CUDA thread block adds.
float summed_energy(const WidthRequest& parameter) {
  std::array<float, kEnergyLanes> lanes{};
  for (std::size_t j = 0; j < super_groups_of(parameter.count); ++j) {
    const float energy = energy_of(parameter, j);
    if (std::isfinite(energy)) lanes[j % kEnergyLanes] += energy;
  }
  for (std::size_t half = kEnergyLanes / 2; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

// If n / E overflows, it is replaced by the largest finite number: infinity times an energy of zero
// would be NaN, which counts as the largest need.
float weight_of(Need need, const WidthRequest& parameter) {
  if (need != Need::kEnergyByRoot && need != Need::kEnergyByParameter) return 1.0f;
  const float energy = summed_energy(parameter);
  const float inverse = energy > 0 ? static_cast<float>(parameter.count) / energy : 0.0f;
  const float r = std::min(inverse, std::numeric_limits<float>::max());
  return need == Need::kEnergyByRoot ? std::sqrt(r) : r;
}

void add_demands(const WidthRule& rule, const WidthRequest& parameter, std::uint32_t ranks,
                 std::vector<WidthDemand>& demands) {
  const float weight = weight_of(rule.need, parameter);
  for (std::size_t j = 0; j < super_groups_of(parameter.count); ++j) {
    const std::size_t held = std::min(kSuperGroup, parameter.count - j * kSuperGroup);
    float energy = energy_of(parameter, j);
    if (rule.need == Need::kEnergyAndMean) {
      const float values = static_cast<float>(held) * static_cast<float>(ranks);
      energy += values * (mean_of(parameter, j) * mean_of(parameter, j));
    }
    const std::size_t packs = packs_of(rule.pads_packs ? kSuperGroup : held);
    demands.push_back({.need = weight * energy, .packs = static_cast<std::uint8_t>(packs)});
  }
}

}  // namespace

void fit_widths(const WidthRule& rule, std::span<const WidthRequest> parameters,
                std::uint32_t ranks, std::size_t code_bytes) {
  // Reused between calls: widths are chosen for every tile of every hop.
  thread_local std::vector<WidthDemand> demands;
  demands.clear();
  for (const WidthRequest& parameter : parameters) {
    add_demands(rule, parameter, ranks, demands);
  }
  fill_to_level(demands, rule.ladder, code_bytes);
  std::size_t next = 0;
  for (const WidthRequest& parameter : parameters) {
    for (std::uint8_t& width : parameter.widths) width = demands[next++].width;
  }
}

}  // namespace nf
