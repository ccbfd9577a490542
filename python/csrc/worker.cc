#include "worker.h"

#include <pthread.h>

#include <utility>

namespace nf::torch_front {

Worker::Worker() : thread_([this] { run(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void Worker::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty(); });
}

void Worker::run() {
  pthread_setname_np(pthread_self(), "nf_worker");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_closing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const std::function<void()> job = std::move(jobs_.front());
    lock.unlock();
    job();
    lock.lock();
    jobs_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace nf::torch_front
