// Measures the error and the traffic of one codec over one topology.
#pragma once

#include <cstdint>
#include <span>

#include "neuron_fabric/codec.h"
#include "neuron_fabric/collective.h"
#include "neuron_fabric/topology.h"
#include "nf/plan/shapes.h"
#include "nf/quality/error.h"
#include "nf/support/progress.h"

namespace nf::cli {

struct QualityCase {
  Collective collective = Collective::kAllReduce;
  const Codec* codec = nullptr;
  Topology topology = Topology::kRing;
  std::uint32_t ranks = 1;
  std::uint32_t trial = 0;
  std::span<const float> felt_weights;  // one per value, or none
};

struct QualityTrial {
  TrialError error;
  std::uint64_t bytes = 0;  // sent by all ranks together
};

// Runs one trial on all cores; the result does not depend on their number. Fails if a gradient is
// not finite or the codec fails.
Expected<QualityTrial> measure_quality(const QualityCase& quality_case, const RankValues& values,
                                       std::span<const ParameterShape> parameters,
                                       Progress& progress);

}  // namespace nf::cli
