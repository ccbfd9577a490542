// A thread that runs jobs in the order in which they were posted. If a job throws, its handler is
// called on the same thread, and the next job runs.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace nf::torch_front {

class Worker {
 public:
  // Receives the text of the exception.
  using Handler = std::function<void(const std::string& what)>;

  Worker();
  // Runs all posted jobs first.
  ~Worker();

  // Calls `failed` if the job throws.
  void post(std::function<void()> job, Handler failed = {});
  // Waits for all posted jobs. Not from the thread itself.
  void drain();
  // The first exception without a handler: of a job without one, or of a handler itself.
  std::optional<std::string> failure() const;

 private:
  struct Posted {
    std::function<void()> job;
    Handler failed;
  };

  void run();
  void run_one(const Posted& posted);
  void keep_failure(std::string what);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Posted> jobs_;  // the first is running
  std::optional<std::string> failure_;
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace nf::torch_front
