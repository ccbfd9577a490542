// The error of one codec's sums along one topology, and what they cost.
#pragma once

#include <cstdint>
#include <span>

#include "neuron_fabric/codec.h"
#include "neuron_fabric/topology.h"
#include "nf/plan/shapes.h"
#include "nf/quality/error.h"
#include "nf/support/progress.h"

namespace nf::cli {

struct QualityCase {
  const Codec* codec = nullptr;
  Topology topology = Topology::kRing;
  std::uint32_t ranks = 1;
  std::uint32_t trial = 0;
};

struct QualityTrial {
  TrialError error;
  std::uint64_t bytes = 0;  // that all ranks together send
};

// One trial, on all cores; the figures do not depend on how many there are. Fails where a gradient
// is not finite, and where the codec fails.
Expected<QualityTrial> measure_quality(const QualityCase& subject, const RankValues& values,
                                       std::span<const ParameterShape> parameters,
                                       Progress& progress);

}  // namespace nf::cli
