#include "c10d_waiters.h"

#include <pthread.h>

#include <exception>

#include "c10d_work.h"

namespace nf::torch_front {

C10dWaiters::~C10dWaiters() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    for (const Waiter& waiter : waiters_) {
      if (waiter.work != nullptr) waiter.work->abort();
    }
  }
  changed_.notify_all();
  for (Waiter& waiter : waiters_) {
    if (waiter.thread.joinable()) waiter.thread.join();
  }
}

void C10dWaiters::add(Direction direction, c10::intrusive_ptr<c10d::Work> work,
                      Transfer& transfer) {
  {
    const std::lock_guard lock(mutex_);
    Channel& channel = channels_[{transfer.peer, direction}];
    channel.peer = transfer.peer;
    channel.items.push_back({std::move(work), &transfer});
    if (std::exchange(channel.is_attended, true)) return;
    unattended_.push_back(&channel);
    if (unattended_.size() > idle_ && started_ < kMaxThreads) {
      Waiter& waiter = waiters_[started_];
      waiter.thread = std::thread([this, &waiter] { run(waiter); });
      ++started_;
      ++idle_;
    }
  }
  changed_.notify_one();
}

bool C10dWaiters::is_crowded() const {
  const std::lock_guard lock(mutex_);
  return started_ == kMaxThreads && unattended_.size() > idle_;
}

// An aborted wait returns false; the transfer itself goes on, and can be waited for again. An abort
// between two waits interrupts the next one.
void C10dWaiters::rotate() {
  const std::lock_guard lock(mutex_);
  if (unattended_.size() <= idle_) return;
  for (const Waiter& waiter : waiters_) {
    if (waiter.work != nullptr && waiter.turn < turn_) waiter.work->abort();
  }
  ++turn_;
}

void C10dWaiters::run(Waiter& self) {
  pthread_setname_np(pthread_self(), "nf_waiter");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_closing_ || !unattended_.empty(); });
    if (is_closing_) return;
    --idle_;
    Channel& channel = *unattended_.front();
    unattended_.pop_front();
    attend(channel, self, lock);
    ++idle_;
  }
}

// Until the channel has no transfers, or another channel needs the thread.
void C10dWaiters::attend(Channel& channel, Waiter& self, std::unique_lock<std::mutex>& lock) {
  do {
    const Item item = channel.items.front();
    self.work = item.work.get();
    self.turn = turn_;
    lock.unlock();
    const bool is_finished = finish(channel.peer, item);
    lock.lock();
    self.work = nullptr;
    if (is_finished) channel.items.pop_front();
    if (is_closing_) return;
  } while (!channel.items.empty() && unattended_.empty());
  channel.is_attended = !channel.items.empty();
  if (channel.is_attended) unattended_.push_back(&channel);
}

bool C10dWaiters::finish(std::uint32_t peer, const Item& item) {
  try {
    if (!item.work->wait(kNoTimeout)) return false;
    events_.add_done(*item.transfer);
  } catch (const std::exception& error) {
    events_.add_failed(peer, first_line(error.what()));
  }
  return true;
}

}  // namespace nf::torch_front
