// The rule by which codecs choose the widths of super-groups: the need of a
// super-group and the ladder of water_level.h. It is data, so that CUDA kernels can apply the same
// rule.
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
  kEnergyAndMean,      // energy about zero, summed over the ranks
  kEnergy,             // energy about the mean
  kEnergyByRoot,       // energy about the mean, times sqrt(n / E)
  kEnergyByParameter,  // energy about the mean, times n / E
};

struct WidthRule {
  Need need = Need::kEnergy;
  bool pads_packs = false;       // SuperGroupFormat::pads_packs
  std::span<const Rung> ladder;  // of static storage duration
};

// The number of partial sums of a parameter's energies (docs/codecs/waterfill.md), one per thread
// of a CUDA thread block.
inline constexpr std::size_t kEnergyLanes = 256;

// Sets the widths of all `parameters` together, so that their codes take at most `code_bytes`.
// Every width is at least the first of the ladder, even if that exceeds `code_bytes`.
void fit_widths(const WidthRule& rule, std::span<const WidthRequest> parameters,
                std::uint32_t ranks, std::size_t code_bytes);

}  // namespace nf
