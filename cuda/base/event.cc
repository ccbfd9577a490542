#include "cuda/base/event.h"

#include "cuda/base/launch.h"

namespace nf::cuda {

Event::~Event() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
}

Status Event::record(cudaStream_t stream) {
  if (event_ == nullptr)
    NF_RETURN_IF_ERROR(to_status(cudaEventCreate(&event_), "creating an event"));
  return to_status(cudaEventRecord(event_, stream), "recording an event");
}

Status Event::block(cudaStream_t stream) const {
  if (event_ == nullptr) return {};
  return to_status(cudaStreamWaitEvent(stream, event_), "waiting for an event");
}

double Event::seconds_since(const Event& earlier) const {
  float milliseconds = 0;
  if (cudaEventElapsedTime(&milliseconds, earlier.event_, event_) != cudaSuccess) return 0;
  return milliseconds * 1e-3;
}

}  // namespace nf::cuda
