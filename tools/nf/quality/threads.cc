#include "nf/quality/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace nf::cli {
namespace {

class Parts {
 public:
  Parts(std::size_t count, const std::function<Status(std::size_t)>& work)
      : count_(count), work_(work) {}

  void run() {
    for (std::size_t part = next_++; part < count_; part = next_++) {
      try {
        if (Status status = work_(part); !status.ok()) fail(part, std::move(status), nullptr);
      } catch (...) {  // out of memory
        fail(part, {}, std::current_exception());
      }
    }
  }

  Status result() {
    if (exception_) std::rethrow_exception(exception_);
    return status_;
  }

 private:
  void fail(std::size_t part, Status status, std::exception_ptr exception) {
    const std::lock_guard lock(mutex_);
    next_ = count_;
    if (part >= failed_) return;
    failed_ = part;
    status_ = std::move(status);
    exception_ = std::move(exception);
  }

  const std::size_t count_;
  const std::function<Status(std::size_t)>& work_;
  std::atomic<std::size_t> next_ = 0;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::size_t failed_ = SIZE_MAX;
  Status status_;
  std::exception_ptr exception_;
};

}  // namespace

Status for_each_part(std::size_t count, const std::function<Status(std::size_t)>& work) {
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  Parts parts(count, work);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(cores, count); ++i) {
      threads.emplace_back([&parts] { parts.run(); });
    }
    parts.run();
  }
  return parts.result();
}

}  // namespace nf::cli
