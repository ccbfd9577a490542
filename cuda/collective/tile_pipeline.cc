#include "cuda/collective/tile_pipeline.h"

#include "cuda/base/launch.h"

namespace nf::cuda {

TilePipeline::~TilePipeline() {
  wire_.wait();
  for (const auto* events : {&made_, &arrived_}) {
    for (const cudaEvent_t event : *events) static_cast<void>(cudaEventDestroy(event));
  }
}

Status TilePipeline::reserve(std::uint32_t tiles) {
  NF_RETURN_IF_ERROR(wire_.prepare());
  for (auto* events : {&made_, &arrived_}) {
    while (events->size() < tiles) {
      cudaEvent_t event = nullptr;
      NF_RETURN_IF_ERROR(
          to_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event"));
      events->push_back(event);
    }
  }
  return {};
}

// Memory is freed in the order of `stream`, so after the exchanges.
Status TilePipeline::wait_for_exchanges(cudaStream_t stream) {
  NF_RETURN_IF_ERROR(record(arrived_.front(), wire_.stream()));
  return wait(stream, arrived_.front());
}

Status TilePipeline::record(cudaEvent_t event, cudaStream_t stream) {
  return to_status(cudaEventRecord(event, stream), "record");
}

Status TilePipeline::wait(cudaStream_t stream, cudaEvent_t event) {
  return to_status(cudaStreamWaitEvent(stream, event), "wait");
}

}  // namespace nf::cuda
