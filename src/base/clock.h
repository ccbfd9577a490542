// Time as an argument: what waits or measures takes a Clock, so that its tests need no sleep.
#pragma once

#include <chrono>

#include "neuron_fabric/time.h"

namespace nf {

class Clock {
 public:
  virtual ~Clock() = default;
  // Time since some fixed moment; never goes back.
  virtual Duration now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Duration now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

}  // namespace nf
