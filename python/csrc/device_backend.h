// Sums of gradients that lie on a device, without bringing them to the host: what
// cuda/device_path.h needs of torch. In a build without CUDA there is none.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <functional>
#include <memory>

#include "job_context.h"
#include "model.h"
#include "neuron_fabric/fabric.h"

namespace nf::torch_front {

class DeviceBackend {
 public:
  // "cuda", or nothing: what this build can sum on.
  static const char* kind();

  using CheckPeers = std::function<Status(std::uint64_t step, Duration waited)>;
  // For a model on a device; all ranks call at the same time. Null, with why in `why_not`, where
  // this build, a route or the topology has no device form. Throws std::runtime_error where the
  // ranks cannot meet.
  static std::unique_ptr<DeviceBackend> create(const Model& model, const JobContext& context,
                                               const FabricOptions& options, CheckPeers check_peers,
                                               std::string& why_not);
  virtual ~DeviceBackend() = default;
  DeviceBackend() = default;
  DeviceBackend(const DeviceBackend&) = delete;
  DeviceBackend& operator=(const DeviceBackend&) = delete;

  // Borrows `control`; this object outlives the fabric.
  virtual Expected<std::unique_ptr<Fabric>> make_fabric(Transport& control,
                                                        FabricOptions options) = 0;
  // Adds up values of the device over all ranks, by the engine, on stream().
  virtual DenseEngine& engine() = 0;
  // Where sums happen.
  virtual c10::Stream stream() const = 0;
  // Torch gives the memory to nobody else before what is on streams here by then is done with it,
  // whatever becomes of the bucket's future.
  virtual void hold(const at::Tensor& bucket) = 0;
  // Nobody waits any longer for what is under way, here and by the engine. Any thread.
  virtual void abort() = 0;
};

}  // namespace nf::torch_front
