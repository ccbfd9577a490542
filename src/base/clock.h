// Code that waits or measures time takes a Clock, so that its tests need no sleep.
#pragma once

#include <chrono>

#include "neuron_fabric/time.h"

namespace nf {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic time since an arbitrary fixed point.
  virtual Duration now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Duration now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

}  // namespace nf
