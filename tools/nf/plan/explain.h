// nf plan --explain: the route of each parameter under a profile, bucket by bucket, and its reason.
#pragma once

#include <cstdint>
#include <string>

#include "neuron_fabric/status.h"
#include "nf/plan/shapes.h"

namespace nf::cli {

struct ExplainRequest {
  std::string profile;     // a file; empty for the default profile of attach()
  std::uint64_t step = 0;  // selects the training phase
  bool as_json = false;
};

// Fails if the profile cannot be read or does not fit the model.
Status explain_plan(const ModelShapes& model, const ExplainRequest& request);

}  // namespace nf::cli
