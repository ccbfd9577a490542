// How a profile sends a model: bucket by bucket, what travels along which route, and why.
#pragma once

#include <cstdint>
#include <string>

#include "neuron_fabric/status.h"
#include "nf/plan/shapes.h"

namespace nf::cli {

struct ExplainRequest {
  std::string profile;     // a file; empty for the profile that attach() takes without one
  std::uint64_t step = 0;  // chooses the phase
  bool as_json = false;
};

// Fails where the profile cannot be read or is not for this model.
Status explain_plan(const ModelShapes& model, const ExplainRequest& request);

}  // namespace nf::cli
