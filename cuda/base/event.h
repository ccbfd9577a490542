// CUDA events.
#pragma once

#include <cuda_runtime_api.h>

#include "neuron_fabric/status.h"

namespace nf::cuda {

// Owns an event that measures time. Created by the first record().
class Event {
 public:
  Event() = default;
  ~Event();
  Event(Event&& other) noexcept : event_(other.event_) { other.event_ = nullptr; }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event& operator=(Event&&) = delete;

  Status record(cudaStream_t stream);
  // Later work on `stream` waits for the event. A no-op if it was never recorded.
  Status block(cudaStream_t stream) const;
  cudaEvent_t get() const { return event_; }
  // Precondition: both have been recorded and are complete.
  double seconds_since(const Event& earlier) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace nf::cuda
