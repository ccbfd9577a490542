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

namespace nf::torch_front {
namespace {

// How often a rank that waits for the engine asks whether its peers still live.
constexpr std::chrono::milliseconds kPeerCheckInterval{200};
// How long a rank whose device has lost a peer waits to hear which.
constexpr std::chrono::milliseconds kNaming{2000};

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

// One bucket between the hook and its future.
struct Runtime::Job {
  at::Tensor buffer;
  std::uint64_t step = 0;
  std::size_t index = 0;
  bool is_last = false;
  c10::intrusive_ptr<c10::ivalue::Future> future;
  std::unique_ptr<BucketSum> sum;
  std::atomic<int> parts = 1;  // still to be summed: at low bits, by the engine
  std::atomic<bool> is_settled = false;
};

// How the engine's threads find the runtime. They must not own it: its end may be that of the
// engine's group, which no thread of that group can wait for.
struct Runtime::Link {
  std::shared_mutex mutex;
  Runtime* runtime = nullptr;  // until it is gone
};

Runtime::Runtime(Model model, JobContext context, FabricOptions options)
    : model_(std::move(model)),
      context_(std::move(context)),
      timeout_(options.timeout),
      transport_(context_.own),
      watch_(context_, transport_, timeout_),
      engine_(model_.device().is_cpu() ? context_.training : context_.own, timeout_),
      fabric_(make_fabric(with_parameters(std::move(options), model_))),
      link_(std::make_shared<Link>()) {
  link_->runtime = this;
}

std::unique_ptr<Fabric> Runtime::make_fabric(FabricOptions options) {
  if (!model_.device().is_cpu()) {
    try {
      device_ = DeviceBackend::create(
          model_, context_, options,
          [this](std::uint64_t step, Duration waited) { return watch_.check_peers(step, waited); },
          why_on_host_);
    } catch (const std::exception& error) {
      // Others wait to meet this rank.
      transport_.abort({ErrorCode::kUnsupported, error.what()});
      throw;
    }
  }
  Expected<std::unique_ptr<Fabric>> fabric =
      device_ != nullptr ? device_->make_fabric(transport_, std::move(options))
                         : Fabric::create(transport_, engine_, std::move(options));
  if (!fabric) {
    // Others may be measuring, and wait for this rank.
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
  // Others may still be busy with the last step, in which this rank is through.
  if (!watch_.has_failed()) transport_.notify_shutdown(fabric_->step());
  transport_.close();
}

c10::OptionalDeviceGuard Runtime::device_guard() const {
  const c10::Device device = model_.device();
  return device.is_cpu() ? c10::OptionalDeviceGuard() : c10::OptionalDeviceGuard(device);
}

c10::intrusive_ptr<c10::ivalue::Future> Runtime::run(c10d::GradBucket& bucket) {
  RECORD_FUNCTION("neuron_fabric::bucket", std::vector<c10::IValue>());
  // A joined rank's hook runs on a thread whose current device may be another one.
  const c10::OptionalDeviceGuard on_device = device_guard();
  auto job = std::make_shared<Job>();
  job->buffer = bucket.getBuffer();
  job->step = fabric_->step();
  job->index = bucket.getIndex();
  job->is_last = bucket.isLast();
  job->future = make_future(job->buffer);
  {
    const std::lock_guard lock(mutex_);
    under_way_.push_back(job);
  }
  if (is_closed_) {
    fail(*job, {ErrorCode::kInvalidArgument, "the fabric has been closed"});
    return job->future;
  }
  try {
    if (!Model::has_route(bucket)) {
      sum_unrouted(job, bucket);
    } else if (job->buffer.device().is_cpu()) {
      sum_on_host(job, bucket);
    } else if (device_ != nullptr) {
      sum_on_device(job, bucket);
    } else {
      sum_through_host(job, bucket);
    }
  } catch (const std::exception& error) {  // it is refused; the others need not wait for it
    fail(*job, {ErrorCode::kInvalidArgument, first_line(error.what())});
    if (device_ != nullptr) device_->abort();
  }
  if (job->is_last) {
    worker_.post([this, step = job->step] { end_step(step); },
                 [this](const std::string& what) { give_up(what); });
  }
  return job->future;
}

// The step cannot end: its peers must not wait for this rank, nor the next step for its statistics.
void Runtime::give_up(const std::string& what) {
  transport_.abort({ErrorCode::kUnsupported, first_line(what)});
  if (device_ != nullptr) device_->abort();
}

// A failure shows in the next step's first bucket, which needs what could not be had.
void Runtime::end_step(std::uint64_t step) {
  wait_for_step(step);
  Status status = fabric_->end_step();
  if (status.ok()) watch_.step_ended(step);
  if (status.ok() || device_ == nullptr) return;
  // Ranks that wait for each other name each other, unless one has looked around while it waited.
  if (is_lost(status) && !watch_.has_signed(step))
    status = watch_.report_unresponsive_peers(step, status);
  // Of buckets whose futures are complete nobody else tells.
  static_cast<void>(watch_.describe(c10::str("step ", step), status));
  device_->abort();
}

void Runtime::sum_on_host(const std::shared_ptr<Job>& job, c10d::GradBucket& bucket) {
  Expected<std::unique_ptr<BucketSum>> sum = fabric_->begin(model_.view(bucket, job->buffer));
  // What failed may be the exchange at the end of the step before, where ranks wait for each other.
  if (!sum) return fail(*job, watch_.report_unresponsive_peers(job->step, sum.status()));
  job->sum = std::move(*sum);
  // Once a part is under way, the job may be finished at any moment.
  const Values dense = job->sum->dense();
  const bool has_low_bit = job->sum->has_low_bit();
  job->parts = (dense.count > 0 ? 1 : 0) + (has_low_bit ? 1 : 0);
  if (job->parts == 0) return finish(*job);
  if (dense.count > 0) {
    try {
      engine_.start(dense)->getFuture()->addCallback(
          [link = link_, job](c10::ivalue::Future& done) {
            const std::shared_lock lock(link->mutex);
            Runtime* self = link->runtime;
            if (self == nullptr) return;
            if (done.hasError()) {
              self->fail(*job, self->watch_.engine_failure(
                                   job->step, done.tryRetrieveErrorMessage(), kPeerCheckInterval));
            } else {
              self->finish_part(*job);
            }
          });
    } catch (const std::exception& error) {
      return fail(*job, watch_.engine_failure(job->step, error.what(), kPeerCheckInterval));
    }
  }
  if (has_low_bit) {
    // With the thread's state, traces show what runs on the worker.
    const auto sum_low_bit = [this, job, state = at::ThreadLocalState()] {
      const at::ThreadLocalStateGuard as_caller(state);
      RECORD_FUNCTION("neuron_fabric::sum_low_bit", std::vector<c10::IValue>());
      if (Status status = fabric_->sum_low_bit(*job->sum); !status.ok()) {
        return fail(*job, watch_.report_unresponsive_peers(job->step, status));
      }
      finish_part(*job);
    };
    worker_.post(sum_low_bit, fails(job));
  }
}

// The engine sums the bucket as DDP does without a hook, to the bit. For the fabric it is empty.
void Runtime::sum_unrouted(const std::shared_ptr<Job>& job, c10d::GradBucket& bucket) {
  const Bucket empty{.index = static_cast<std::uint32_t>(bucket.getIndex()),
                     .is_last = bucket.isLast(),
                     .values = {},
                     .slots = {}};
  if (Status status = average(empty); !status.ok()) {
    return fail(*job, watch_.report_unresponsive_peers(job->step, status));
  }
  const int ranks = context_.training->getSize();
  if (job->buffer.is_sparse()) {
    job->buffer.div_(ranks);
  } else {
    job->buffer.mul_(1.0 / ranks);
  }
  std::vector<at::Tensor> tensors{job->buffer};
  context_.training->allreduce(tensors)->getFuture()->addCallback([link = link_,
                                                                   job](c10::ivalue::Future& done) {
    const std::shared_lock lock(link->mutex);
    Runtime* self = link->runtime;
    if (self == nullptr) return;
    if (done.hasError()) {
      return self->fail(*job, self->watch_.engine_failure(job->step, done.tryRetrieveErrorMessage(),
                                                          kPeerCheckInterval));
    }
    // A sparse sum is a tensor of its own.
    if (!job->is_settled.exchange(true)) {
      job->future->markCompleted(done.value().toTensorVector().front());
    }
    self->settle(*job);
  });
}

// Everything is put on the stream at once, and so is the end of the future.
void Runtime::sum_on_device(const std::shared_ptr<Job>& job, c10d::GradBucket& bucket) {
  device_->hold(job->buffer);
  if (Status status = average(model_.view(bucket, job->buffer)); !status.ok()) {
    // Once a failure is told, nobody need wait to hear which rank it was.
    if (is_lost(status) && !watch_.has_failed()) {
      status = watch_.engine_failure(job->step, status.message(), kNaming);
    }
    fail(*job, status);
    // Whatever failed, others wait for this bucket, and what is on the streams for theirs.
    return device_->abort();
  }
  const c10::StreamGuard guard(device_->stream());
  if (!job->is_settled.exchange(true)) job->future->markCompleted(job->buffer);
  settle(*job);
}

// Through host memory, on a stream of its own, so that neither backward nor the host waits.
void Runtime::sum_through_host(const std::shared_ptr<Job>& job, c10d::GradBucket& bucket) {
  const c10::Device device = job->buffer.device();
  const c10::impl::VirtualGuardImpl streams(device.type());
  auto ready = std::make_shared<c10::Event>(device.type());
  ready->record(streams.getStream(device));
  Bucket view = model_.view(bucket, job->buffer);
  const auto sum = [this, job, ready, view = std::move(view), streams, device]() mutable {
    const c10::StreamGuard guard(streams.getStreamFromGlobalPool(device));
    ready->block(guard.current_stream());
    at::Tensor host = job->buffer.to(at::kCPU);
    view.values.data = host.data_ptr();
    if (Status status = average(view); !status.ok()) {
      return fail(*job, watch_.report_unresponsive_peers(job->step, status));
    }
    job->buffer.copy_(host);
    if (!job->is_settled.exchange(true)) job->future->markCompleted(job->buffer);
    settle(*job);
  };
  worker_.post(sum, fails(job));
}

// All of a bucket but the end of its step, which comes as a job of its own.
Status Runtime::average(const Bucket& bucket) {
  Expected<std::unique_ptr<BucketSum>> sum = fabric_->begin(bucket);
  if (!sum) return sum.status();
  if ((*sum)->has_low_bit()) NF_RETURN_IF_ERROR(fabric_->sum_low_bit(**sum));
  if (const Values dense = (*sum)->dense(); dense.count > 0) {
    NF_RETURN_IF_ERROR(device_ != nullptr ? device_->engine().sum(dense) : engine_.sum(dense));
  }
  return fabric_->finish(**sum);
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
  if (Status status = fabric_->finish(*job.sum); !status.ok()) return fail(job, status);
  job.sum.reset();
  if (!job.is_settled.exchange(true)) job.future->markCompleted(job.buffer);
  settle(job);
}

void Runtime::fail(Job& job, const Status& why) {
  if (!job.is_settled.exchange(true)) {
    const std::string where = c10::str("step ", job.step, ", bucket ", job.index);
    const std::string message = c10::str("neuron_fabric: ", watch_.describe(where, why));
    job.future->setError(std::make_exception_ptr(std::runtime_error(message)));
  }
  settle(job);
}

void Runtime::settle(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(under_way_,
                  [&](const std::shared_ptr<Job>& other) { return other.get() == &job; });
  }
  settled_.notify_all();
}

// The engine may wait for a dead rank until its own timeout, which is half an hour by default. Who
// has lost a peer, or reads that another rank has, does not wait for it.
void Runtime::wait_for_step(std::uint64_t step) {
  const Duration begin = transport_.now();
  std::unique_lock lock(mutex_);
  const auto is_over = [&] {  // the next one may have begun
    return std::ranges::none_of(under_way_,
                                [&](const std::shared_ptr<Job>& job) { return job->step <= step; });
  };
  while (!settled_.wait_for(lock, kPeerCheckInterval, is_over)) {
    const std::vector<std::shared_ptr<Job>> waiting = under_way_;
    lock.unlock();
    if (Status trouble = watch_.check_peers(step, transport_.now() - begin); !trouble.ok()) {
      for (const std::shared_ptr<Job>& job : waiting) fail(*job, trouble);
    }
    lock.lock();
  }
}

}  // namespace nf::torch_front
