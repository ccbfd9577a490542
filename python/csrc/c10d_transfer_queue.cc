#include "c10d_transfer_queue.h"

#include <pthread.h>

#include <exception>
#include <utility>

#include "c10d_work.h"

namespace nf::torch_front {

C10dTransferQueue::C10dTransferQueue(PeerEvents& events, std::uint32_t peer)
    : events_(events), peer_(peer) {
  thread_ = std::thread([this] { run(); });
}

C10dTransferQueue::~C10dTransferQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    for (const Item& item : items_) item.work->abort();
  }
  changed_.notify_one();
  thread_.join();
}

void C10dTransferQueue::add(c10::intrusive_ptr<c10d::Work> work, Transfer& transfer) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_back({std::move(work), &transfer});
  }
  changed_.notify_one();
}

void C10dTransferQueue::run() {
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

void C10dTransferQueue::finish(const Item& item) {
  try {
    if (item.work->wait(kNoTimeout)) {
      events_.add_done(*item.transfer);
    } else {
      events_.add_failed(peer_, "the transfer was aborted");
    }
  } catch (const std::exception& error) {
    events_.add_failed(peer_, first_line(error.what()));
  }
}

}  // namespace nf::torch_front
