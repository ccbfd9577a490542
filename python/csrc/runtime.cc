#include "runtime.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <optional>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "c10d_work.h"
#include "runtime/bucket_work.h"

namespace nf::torch_front {
namespace {

// How often a rank that waits for the engine polls whether its peers are alive.
constexpr std::chrono::milliseconds kPeerCheckInterval{200};
// How long a rank whose device has lost a peer waits for a report of which one.
constexpr std::chrono::milliseconds kReportWait{2000};

bool is_lost(const Status& status) {
  return status.code() == ErrorCode::kPeerLost || status.code() == ErrorCode::kAborted ||
         status.code() == ErrorCode::kDeadlineExceeded;
}

FabricOptions with_parameters(FabricOptions options, const Model& model) {
  options.parameters = model.parameters();
  return options;
}

c10::intrusive_ptr<c10::ivalue::Future> make_future(const at::Tensor& buffer) {
  std::vector<c10::Device> devices;
  if (!buffer.device().is_cpu()) devices.push_back(buffer.device());
  return c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get(), std::move(devices));
}

}  // namespace

// One bucket between run() and its future.
struct Runtime::Job {
  Job(SourceBucket from, std::uint64_t in_step)
      : bucket(std::move(from)), step(in_step), future(make_future(bucket.buffer)) {}

  const SourceBucket bucket;
  const std::uint64_t step;
  const c10::intrusive_ptr<c10::ivalue::Future> future;
  std::unique_ptr<BucketWork> work;
  std::atomic<int> parts = 1;            // not yet summed: low-bit routes, dense values
  std::atomic<bool> has_result = false;  // the future has a value or an error
};

// How engine threads reach the runtime. They must not own it: its destruction may be the end of the
// engine's process group, which no thread of that group can wait for.
struct Runtime::Link {
  std::shared_mutex mutex;
  Runtime* runtime = nullptr;  // null after its destruction
};

Runtime::Runtime(Model model, JobContext context, FabricOptions options, MemorySideReducer reducer,
                 std::string why_on_host)
    : model_(std::move(model)),
      context_(std::move(context)),
      timeout_(options.timeout),
      collective_(options.collective),
      transport_(context_.own),
      watch_(context_, transport_, timeout_),
      engine_(model_.device().is_cpu() ? context_.training : context_.own, timeout_),
      why_on_host_(std::move(why_on_host)),
      fabric_(make_fabric(with_parameters(std::move(options), model_), std::move(reducer))),
      link_(std::make_shared<Link>()) {
  link_->runtime = this;
}

std::unique_ptr<Fabric> Runtime::make_fabric(FabricOptions options, MemorySideReducer reducer) {
  if (!model_.device().is_cpu() && why_on_host_.empty()) {
    try {
      device_ = DeviceBackend::create(
          {.model = model_,
           .context = context_,
           .options = options,
           .has_reducer = !reducer.name.empty(),
           .check_peers = [this](std::uint64_t step,
                                 Duration waited) { return watch_.check_peers(step, waited); }},
          why_on_host_);
    } catch (const std::exception& error) {
      // The other ranks wait for this one in the rendezvous.
      transport_.abort({ErrorCode::kUnsupported, error.what()});
      throw;
    }
  }
  Expected<std::unique_ptr<Fabric>> fabric =
      device_ != nullptr ? device_->make_fabric(transport_, std::move(options))
                         : create_fabric(transport_, std::move(options),
                                         host_path(transport_, engine_, std::move(reducer)));
  if (!fabric) {
    // The other ranks may be measuring and wait for this one.
    transport_.abort(fabric.status());
    if (device_ != nullptr) device_->abort();
    throw std::runtime_error(fabric.status().message());
  }
  return std::move(*fabric);
}

Runtime::~Runtime() {
  const std::unique_lock lock(link_->mutex);
  link_->runtime = nullptr;
}

void Runtime::close() {
  if (is_closed_.exchange(true)) return;
  worker_.drain();
  // Other ranks may still be working on the last step, which this rank has finished.
  if (!watch_.has_failed()) transport_.notify_shutdown(fabric_->step());
  transport_.close();
}

c10::OptionalDeviceGuard Runtime::device_guard() const {
  const c10::Device device = model_.device();
  return device.is_cpu() ? c10::OptionalDeviceGuard() : c10::OptionalDeviceGuard(device);
}

c10::intrusive_ptr<c10::ivalue::Future> Runtime::run(SourceBucket bucket) {
  RECORD_FUNCTION("neuron_fabric::bucket", std::vector<c10::IValue>());
  // A joined rank's hook runs on a thread whose current device may be another one.
  const c10::OptionalDeviceGuard on_device = device_guard();
  const auto job = std::make_shared<Job>(std::move(bucket), fabric_->step());
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  if (is_closed_) {
    fail(*job, {ErrorCode::kInvalidArgument, "the fabric has been closed"});
    return job->future;
  }
  try {
    start(job);
  } catch (const std::exception& error) {
    reject(*job, {ErrorCode::kInvalidArgument, first_line(error.what())});
  }
  if (job->bucket.is_last) {
    worker_.post([this, step = job->step] { end_step(step); },
                 [this](const std::string& what) { abort(what); });
  }
  return job->future;
}

void Runtime::start(const std::shared_ptr<Job>& job) {
  if (!job->bucket.validity.ok()) {
    reject(*job, job->bucket.validity);
  } else if (!job->bucket.slots) {
    sum_unrouted(job);
  } else if (job->bucket.buffer.device().is_cpu()) {
    sum_on_host(job);
  } else if (device_ != nullptr) {
    sum_on_device(job);
  } else {
    sum_through_host(job);
  }
}

// The bucket is invalid. Other ranks must not wait for it.
void Runtime::reject(Job& job, const Status& why) {
  fail(job, why);
  if (device_ != nullptr) device_->abort();
}

// The step cannot end. Neither peers nor the next step may wait for it.
void Runtime::abort(const std::string& what) {
  transport_.abort({ErrorCode::kUnsupported, first_line(what)});
  if (device_ != nullptr) device_->abort();
}

// A failure is reported by the first bucket of the next step, which needs the statistics.
void Runtime::end_step(std::uint64_t step) {
  wait_for_step(step);
  Status status = fabric_->end_step();
  if (status.ok()) watch_.step_ended(step);
  if (status.ok() || device_ == nullptr) return;
  // Ranks that wait for each other would report each other, unless one has polled its peers.
  if (is_lost(status) && !watch_.has_acknowledged(step)) {
    status = watch_.report_unresponsive_peers(step, status);
  }
  // The futures of the buckets are complete and can no longer report it.
  static_cast<void>(watch_.describe(c10::str("step ", step), status));
  device_->abort();
}

void Runtime::sum_on_host(const std::shared_ptr<Job>& job) {
  Expected<std::unique_ptr<BucketWork>> work =
      fabric_->begin(core_bucket(job->bucket, job->bucket.buffer));
  // The failure may come from the end of the previous step, in which ranks wait for each other.
  if (!work) return fail(*job, watch_.report_unresponsive_peers(job->step, work.status()));
  job->work = std::move(*work);
  // Once a part has started, the job may be finished at any time.
  const Values dense = job->work->dense();
  const bool has_low_bit = job->work->has_low_bit();
  job->parts = (dense.count > 0 ? 1 : 0) + (has_low_bit ? 1 : 0);
  if (job->parts == 0) return finish(*job);
  if (dense.count > 0) {
    try {
      const Reduction reduction = job->work->engine_reduction();
      const auto started = job->work->scatters() ? engine_.start_reduce_scatter(dense, reduction)
                                                 : engine_.start(dense);
      started->getFuture()->addCallback([link = link_, job](c10::ivalue::Future& done) {
        const std::shared_lock lock(link->mutex);
        Runtime* self = link->runtime;
        if (self == nullptr) return;
        if (done.hasError()) {
          self->fail(*job, self->watch_.engine_failure(job->step, done.tryRetrieveErrorMessage(),
                                                       kPeerCheckInterval));
        } else {
          self->finish_part(*job);
        }
      });
    } catch (const std::exception& error) {
      return fail(*job, watch_.engine_failure(job->step, error.what(), kPeerCheckInterval));
    }
  }
  if (has_low_bit) {
    // With the state of this thread, profiler traces include the worker.
    const auto sum_low_bit = [this, job, state = at::ThreadLocalState()] {
      const at::ThreadLocalStateGuard as_caller(state);
      // The range ends before the bucket does: a profiler may stop as soon as backward returns.
      const Status status = [&] {
        RECORD_FUNCTION("neuron_fabric::sum_low_bit", std::vector<c10::IValue>());
        return fabric_->sum_low_bit(*job->work);
      }();
      if (!status.ok()) return fail(*job, watch_.report_unresponsive_peers(job->step, status));
      finish_part(*job);
    };
    worker_.post(sum_low_bit, fails(job));
  }
}

// The engine sums the bucket as without a runtime, bit for bit. The fabric sees an empty bucket.
void Runtime::sum_unrouted(const std::shared_ptr<Job>& job) {
  at::Tensor buffer = job->bucket.buffer;
  if (Status status = fabric_->reduce_bucket(core_bucket(job->bucket, buffer)); !status.ok()) {
    return fail(*job, watch_.report_unresponsive_peers(job->step, status));
  }
  const bool scatters = collective_ == Collective::kReduceScatter;
  const auto started = scatters
                           ? reduce_scatter_rows(*context_.training, buffer, job->bucket.reduction)
                           : start_all_reduce(buffer, job->bucket.reduction);
  started->getFuture()->addCallback([link = link_, job, scatters](c10::ivalue::Future& done) {
    const std::shared_lock lock(link->mutex);
    Runtime* self = link->runtime;
    if (self == nullptr) return;
    if (done.hasError()) {
      return self->fail(*job, self->watch_.engine_failure(job->step, done.tryRetrieveErrorMessage(),
                                                          kPeerCheckInterval));
    }
    // The sum of sparse tensors is a new tensor.
    self->complete(*job, scatters ? job->bucket.buffer : done.value().toTensorVector().front());
  });
}

c10::intrusive_ptr<c10d::Work> Runtime::start_all_reduce(at::Tensor buffer, Reduction reduction) {
  if (reduction == Reduction::kMean) {
    const int ranks = context_.training->getSize();
    if (buffer.is_sparse()) {
      buffer.div_(ranks);
    } else {
      buffer.mul_(1.0 / ranks);
    }
  }
  std::vector<at::Tensor> tensors{buffer};
  return context_.training->allreduce(tensors);
}

// Enqueues everything on streams, the completion of the future included.
void Runtime::sum_on_device(const std::shared_ptr<Job>& job) {
  const at::Tensor& buffer = job->bucket.buffer;
  device_->hold(buffer);
  if (Status status = fabric_->reduce_bucket(core_bucket(job->bucket, buffer)); !status.ok()) {
    // If a failure has been reported, it names the rank already.
    if (is_lost(status) && !watch_.has_failed()) {
      status = watch_.engine_failure(job->step, status.message(), kReportWait);
    }
    fail(*job, status);
    // The other ranks wait for this bucket, and the work on the streams for theirs.
    return device_->abort();
  }
  const c10::StreamGuard guard(device_->stream());
  complete(*job, buffer);
}

// Stages the bucket through host memory, on a stream of its own, so that backward does not wait.
void Runtime::sum_through_host(const std::shared_ptr<Job>& job) {
  const c10::Device device = job->bucket.buffer.device();
  const c10::impl::VirtualGuardImpl streams(device.type());
  auto ready = std::make_shared<c10::Event>(device.type());
  ready->record(streams.getStream(device));
  const auto sum = [this, job, ready, streams, device] {
    const c10::StreamGuard guard(streams.getStreamFromGlobalPool(device));
    ready->block(guard.current_stream());
    const at::Tensor host = job->bucket.buffer.to(at::kCPU);
    if (Status status = fabric_->reduce_bucket(core_bucket(job->bucket, host)); !status.ok()) {
      return fail(*job, watch_.report_unresponsive_peers(job->step, status));
    }
    at::Tensor buffer = job->bucket.buffer;
    buffer.copy_(host);
    complete(*job, buffer);
  };
  worker_.post(sum, fails(job));
}

Worker::Handler Runtime::fails(const std::shared_ptr<Job>& job) {
  return [this, job](const std::string& what) {
    fail(*job, {ErrorCode::kUnsupported, first_line(what)});
  };
}

void Runtime::finish_part(Job& job) {
  if (--job.parts == 0) finish(job);
}

void Runtime::finish(Job& job) {
  if (Status status = fabric_->finish(*job.work); !status.ok()) return fail(job, status);
  job.work.reset();
  complete(job, job.bucket.buffer);
}

void Runtime::complete(Job& job, const at::Tensor& result) {
  if (!job.has_result.exchange(true)) job.future->markCompleted(result);
  remove(job);
}

void Runtime::fail(Job& job, const Status& why) {
  if (!job.has_result.exchange(true)) {
    const std::string where = c10::str("step ", job.step, ", bucket ", job.bucket.index);
    const std::string message = c10::str("neuron_fabric: ", watch_.describe(where, why));
    job.future->setError(std::make_exception_ptr(std::runtime_error(message)));
  }
  remove(job);
}

void Runtime::remove(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(jobs_, [&](const std::shared_ptr<Job>& other) { return other.get() == &job; });
  }
  removed_.notify_all();
}

// The engine may wait for a dead rank until its own timeout, by default half an hour. A rank that
// has lost a peer, or reads that another rank has, does not wait that long.
void Runtime::wait_for_step(std::uint64_t step) {
  const Duration begin = transport_.now();
  std::unique_lock lock(mutex_);
  const auto is_over = [&] {  // the next step may have begun
    return std::ranges::none_of(jobs_,
                                [&](const std::shared_ptr<Job>& job) { return job->step <= step; });
  };
  while (!removed_.wait_for(lock, kPeerCheckInterval, is_over)) {
    const std::vector<std::shared_ptr<Job>> waiting = jobs_;
    lock.unlock();
    if (Status failure = watch_.check_peers(step, transport_.now() - begin); !failure.ok()) {
      for (const std::shared_ptr<Job>& job : waiting) fail(*job, failure);
    }
    lock.lock();
  }
}

}  // namespace nf::torch_front
