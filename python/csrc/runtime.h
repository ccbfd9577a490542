// One attached model: connects a gradient source to the core. The core does not depend on torch.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/DeviceGuard.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "c10d_transport.h"
#include "device_backend.h"
#include "job_context.h"
#include "model.h"
#include "neuron_fabric/fabric.h"
#include "peer_watch.h"
#include "process_group_engine.h"
#include "runtime/host_path.h"
#include "source_bucket.h"
#include "worker.h"

namespace nf::torch_front {

class Runtime {
 public:
  // If `why_on_host` is not empty, gradients on a device are staged through host memory, for that
  // reason. Throws std::runtime_error with the error message of the core.
  Runtime(Model model, JobContext context, FabricOptions options, MemorySideReducer reducer,
          std::string why_on_host);
  // Waits for callbacks that engine threads are running here.
  ~Runtime();

  // Reduces the bucket over all ranks. Returns immediately. The future holds its buffer with the
  // result (in a reduce-scatter, in this rank's row), or the error with which training must stop.
  c10::intrusive_ptr<c10::ivalue::Future> run(SourceBucket bucket);

  Fabric& fabric() { return *fabric_; }
  const Model& model() const { return model_; }
  // Where gradients are summed: "host" or "cuda".
  const char* place() const { return device_ != nullptr ? DeviceBackend::kind() : "host"; }
  // Why gradients on a device are staged through host memory; otherwise empty.
  const std::string& why_on_host() const { return why_on_host_; }
  // Makes the model's device current while it lives. A no-op for a model on the host.
  c10::OptionalDeviceGuard device_guard() const;
  // Waits until no work is in progress.
  void drain() { worker_.drain(); }
  // Ends the threads. The hook must not run again.
  void close();

 private:
  struct Job;
  struct Link;

  void start(const std::shared_ptr<Job>& job);
  void reject(Job& job, const Status& why);
  void sum_on_host(const std::shared_ptr<Job>& job);
  void sum_on_device(const std::shared_ptr<Job>& job);
  void sum_unrouted(const std::shared_ptr<Job>& job);
  c10::intrusive_ptr<c10d::Work> start_all_reduce(at::Tensor buffer, Reduction reduction);
  void sum_through_host(const std::shared_ptr<Job>& job);
  void end_step(std::uint64_t step);
  std::unique_ptr<Fabric> make_fabric(FabricOptions options, MemorySideReducer reducer);
  void wait_for_step(std::uint64_t step);
  void finish_part(Job& job);
  void finish(Job& job);
  void fail(Job& job, const Status& why);
  void complete(Job& job, const at::Tensor& result);
  void remove(Job& job);
  // Fails the bucket if a part of it throws on the worker.
  Worker::Handler fails(const std::shared_ptr<Job>& job);
  void abort(const std::string& what);

  const Model model_;
  const JobContext context_;
  const Duration timeout_;
  const Collective collective_;
  C10dTransport transport_;
  PeerWatch watch_;
  ProcessGroupEngine engine_;  // sums on the host
  std::string why_on_host_;
  std::unique_ptr<DeviceBackend> device_;  // null if gradients are summed on the host
  std::unique_ptr<Fabric> fabric_;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable removed_;
  std::vector<std::shared_ptr<Job>> jobs_;  // in progress

  std::atomic<bool> is_closed_ = false;
  const std::shared_ptr<Link> link_;
  Worker worker_;  // the last member: its jobs use all others
};

}  // namespace nf::torch_front
