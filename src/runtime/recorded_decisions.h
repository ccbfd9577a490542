// The inputs of admission that depend on measured times, and their replay in another run
// (docs/runtime.md).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "neuron_fabric/fabric.h"

namespace nf {

// For one step.
struct MeasuredInputs {
  std::vector<bool> useful;  // by region
  bool is_over_capacity = false;

  friend bool operator==(const MeasuredInputs&, const MeasuredInputs&) = default;
};

class RecordedDecisions {
 public:
  // Fails with kBadConfig if steps are out of order or a region is not in the profile.
  static Expected<RecordedDecisions> make(std::span<const MeasuredDecision> decisions,
                                          const Profile& profile);

  const MeasuredInputs& at(std::uint64_t step) const;

 private:
  RecordedDecisions() = default;

  std::map<std::uint64_t, MeasuredInputs> by_step_;  // contains step 0
};

}  // namespace nf
