#include "worker.h"

#include <pthread.h>

#include <exception>
#include <utility>

namespace nf::torch_front {
namespace {

// Precondition: an exception is being handled.
std::string text_of_current_exception() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace

Worker::Worker() : thread_([this] { run(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::post(std::function<void()> job, Handler failed) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({std::move(job), std::move(failed)});
  }
  changed_.notify_all();
}

void Worker::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty(); });
}

std::optional<std::string> Worker::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Worker::keep_failure(std::string what) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(what);
}

// No exception may leave the thread: that would terminate the process.
void Worker::run_one(const Posted& posted) {
  try {
    posted.job();
  } catch (...) {
    std::string what = text_of_current_exception();
    if (!posted.failed) return keep_failure(std::move(what));
    try {
      posted.failed(what);
    } catch (...) {
      keep_failure(text_of_current_exception());
    }
  }
}

void Worker::run() {
  pthread_setname_np(pthread_self(), "nf_worker");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_closing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Posted posted = std::move(jobs_.front());
    lock.unlock();
    run_one(posted);
    lock.lock();
    jobs_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace nf::torch_front
