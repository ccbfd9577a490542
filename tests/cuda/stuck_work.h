// Work that blocks a stream for as long as a test needs.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "cuda/base/launch.h"

namespace nf::test {

// Work on a stream that ends at release(), or after a timeout that no test should reach.
class StuckWork {
 public:
  ~StuckWork() { release(); }

  Status put_on(cudaStream_t stream) {
    const auto wait = [](void* self) { static_cast<StuckWork*>(self)->wait(); };
    return cuda::to_status(cudaLaunchHostFunc(stream, wait, this), "blocking work");
  }
  void release() {
    const std::lock_guard lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }
  bool is_over() {
    const std::lock_guard lock(mutex_);
    return is_over_;
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return is_released_; });
    is_over_ = true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_released_ = false;
  bool is_over_ = false;
};

}  // namespace nf::test
