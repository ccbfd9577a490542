// One attached model: what stands between DDP's reducer and the core. Torch ends here.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

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
#include "worker.h"

namespace nf::torch_front {

class Runtime {
 public:
  // Throws std::runtime_error with what is wrong, as the core says it.
  Runtime(Model model, JobContext context, FabricOptions options);
  // Waits for the engine's threads where they are at work here.
  ~Runtime();

  // The hook. Returns at once; the future holds the bucket's buffer with the mean of all ranks in
  // it, or the error that training has to stop with.
  c10::intrusive_ptr<c10::ivalue::Future> run(c10d::GradBucket& bucket);

  Fabric& fabric() { return *fabric_; }
  const Model& model() const { return model_; }
  // Where gradients are summed: "host", or "cuda". And why not on the device that they lie on,
  // where they are brought to the host.
  const char* place() const { return device_ != nullptr ? DeviceBackend::kind() : "host"; }
  const std::string& why_on_host() const { return why_on_host_; }
  // Makes the model's device current for its lifetime; does nothing for a model on the host.
  c10::OptionalDeviceGuard device_guard() const;
  // Until nothing is under way.
  void drain() { worker_.drain(); }
  // Ends the threads; the hook must not run again.
  void close();

 private:
  struct Job;
  struct Link;

  void sum_on_host(const std::shared_ptr<Job>& job, c10d::GradBucket& bucket);
  void sum_on_device(const std::shared_ptr<Job>& job, c10d::GradBucket& bucket);
  void sum_unrouted(const std::shared_ptr<Job>& job, c10d::GradBucket& bucket);
  void sum_through_host(const std::shared_ptr<Job>& job, c10d::GradBucket& bucket);
  void end_step(std::uint64_t step);
  std::unique_ptr<Fabric> make_fabric(FabricOptions options);
  void wait_for_step(std::uint64_t step);
  Status average(const Bucket& bucket);
  void finish_part(Job& job);
  void finish(Job& job);
  void fail(Job& job, const Status& why);
  void settle(Job& job);
  // What the worker does when a part of this bucket throws.
  Worker::Handler fails(const std::shared_ptr<Job>& job);
  void give_up(const std::string& what);

  const Model model_;
  const JobContext context_;
  const Duration timeout_;
  C10dTransport transport_;
  PeerWatch watch_;
  ProcessGroupEngine engine_;  // of what is summed on the host
  std::string why_on_host_;
  std::unique_ptr<DeviceBackend> device_;  // null where gradients are summed on the host
  std::unique_ptr<Fabric> fabric_;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable settled_;
  std::vector<std::shared_ptr<Job>> under_way_;

  std::atomic<bool> is_closed_ = false;
  const std::shared_ptr<Link> link_;
  Worker worker_;  // the last, so that its jobs find everything else alive
};

}  // namespace nf::torch_front
