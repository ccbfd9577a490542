#include "c10d_lane.h"

#include <pthread.h>

#include <exception>
#include <utility>

#include "c10d_work.h"

namespace nf::torch_front {

C10dLane::C10dLane(PeerNews& news, std::uint32_t peer) : news_(news), peer_(peer) {
  thread_ = std::thread([this] { run(); });
}

C10dLane::~C10dLane() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    for (const Item& item : items_) item.work->abort();
  }
  changed_.notify_one();
  thread_.join();
}

void C10dLane::add(c10::intrusive_ptr<c10d::Work> work, Transfer& transfer) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_back({std::move(work), &transfer});
  }
  changed_.notify_one();
}

void C10dLane::run() {
  pthread_setname_np(pthread_self(), "nf_lane");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_closing_ || !items_.empty(); });
    if (is_closing_) return;
    const Item item = items_.front();
    lock.unlock();
    finish(item);
    lock.lock();
    items_.pop_front();
  }
}

void C10dLane::finish(const Item& item) {
  try {
    if (item.work->wait(kNoTimeout)) {
      news_.tell_done(*item.transfer);
    } else {
      news_.tell_failed(peer_, "the transfer was given up");
    }
  } catch (const std::exception& error) {
    news_.tell_failed(peer_, first_line(error.what()));
  }
}

}  // namespace nf::torch_front
