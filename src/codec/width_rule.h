// How waterfill and dynamiq choose the widths of super-groups: what each needs, and the ladder that
// water_level.h climbs. Data, so that a device can follow the same rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/water_level.h"
#include "neuron_fabric/codec.h"

namespace nf {

// The need of a super-group, from its combined statistics. `n` and `E` are the size and the energy
// of its parameter.
enum class Need : std::uint8_t {
  kEnergyAndMean,      // about zero, summed over the ranks
  kEnergy,             // about the mean
  kEnergyByRoot,       // times sqrt(n / E)
  kEnergyByParameter,  // times n / E
};

struct WidthRule {
  Need need = Need::kEnergy;
  std::span<const Rung> ladder;  // lives as long as the program
};

// Partial sums of a parameter's energies (docs/codecs/waterfill.md): as many as a block has
// threads.
inline constexpr std::size_t kEnergyLanes = 256;

// Fills in the widths of all `parameters` together, so that their codes take at most `code_bytes`.
// All get at least the first of the ladder, even if that is more.
void fit_widths(const WidthRule& rule, std::span<const WidthRequest> parameters,
                std::uint32_t ranks, std::size_t code_bytes);

}  // namespace nf
