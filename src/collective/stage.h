// One part of an all-reduce call. A call runs three stages: the ranks agree, reduce codec
// statistics, then sum. A stage never blocks; its driver polls it.
#pragma once

#include <string>

#include "neuron_fabric/status.h"

namespace nf {

class Stage {
 public:
  virtual ~Stage() = default;

  // Makes what progress is possible now. Returns true once the stage is complete.
  virtual Expected<bool> advance() = 0;
  // What is still missing, for the error message of a timeout.
  virtual std::string waiting_for() const = 0;
};

}  // namespace nf
