#include "cuda/transport/wire.h"

#include "cuda/base/launch.h"

namespace nf::cuda {

Wire::~Wire() {
  wait();
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
}

Status Wire::prepare() {
  if (stream_ != nullptr) return {};
  return to_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
}

void Wire::wait() const {
  if (stream_ != nullptr) static_cast<void>(cudaStreamSynchronize(stream_));
}

}  // namespace nf::cuda
