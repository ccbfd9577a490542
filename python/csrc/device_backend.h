// Sums gradients on their device: the streams, memory and communicators that cuda/runtime needs
// from torch. A build without CUDA has no such backend.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <functional>
#include <memory>
#include <string>

#include "job_context.h"
#include "model.h"
#include "neuron_fabric/fabric.h"

namespace nf::torch_front {

class DeviceBackend {
 public:
  // The type of devices that this build supports: "cuda" or "".
  static const char* kind();
  // CMAKE_CUDA_ARCHITECTURES of the device code, separated by commas; "" without CUDA.
  static const char* architectures();

  using CheckPeers = std::function<Status(std::uint64_t step, Duration waited)>;
  struct Request {
    const Model& model;  // on a device
    const JobContext& context;
    const FabricOptions& options;
    bool has_reducer = false;  // a memory-side one, which sums in host memory
    CheckPeers check_peers;
  };
  // All ranks call it at the same time. Null, with the reason in `why_not`, if this build, a route,
  // the topology or the reducer has no device form. Throws std::runtime_error if the rendezvous
  // fails.
  static std::unique_ptr<DeviceBackend> create(Request request, std::string& why_not);
  virtual ~DeviceBackend() = default;
  DeviceBackend() = default;
  DeviceBackend(const DeviceBackend&) = delete;
  DeviceBackend& operator=(const DeviceBackend&) = delete;

  // Borrows `control`. This object outlives the fabric.
  virtual Expected<std::unique_ptr<Fabric>> make_fabric(Transport& control,
                                                        FabricOptions options) = 0;
  // The stream on which buckets are finished.
  virtual c10::Stream stream() const = 0;
  // Torch does not reuse the memory before the work that is now on the streams here is done with
  // it, even if the future of the bucket fails.
  virtual void hold(const at::Tensor& bucket) = 0;
  // Aborts all operations in progress, here and in the engine. Any thread.
  virtual void abort() = 0;
};

}  // namespace nf::torch_front
