// A thread that does one job after the other, in the order in which they were posted.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace nf::torch_front {

class Worker {
 public:
  Worker();
  // Does what has been posted, then ends.
  ~Worker();

  void post(std::function<void()> job);
  // Until everything posted so far is done. Not from the thread itself.
  void drain();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;  // the first is being done
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace nf::torch_front
