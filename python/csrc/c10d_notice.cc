#include "c10d_notice.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <span>

#include "c10d_work.h"

namespace nf::torch_front {
namespace {

constexpr int kNoticeTag = 0x6e67;

// The interval between two polls: a poll of one peer takes about 0.5 us, so polling takes less than
// 1 % of a core with any number of ranks.
constexpr std::chrono::microseconds kPollInterval{10'000};
constexpr std::chrono::microseconds kPollIntervalPerPeer{100};

std::vector<at::Tensor> tensor_over(C10dNotice& notice) {
  return torch_front::tensor_over(std::as_writable_bytes(std::span(&notice, 1)));
}

}  // namespace

C10dNotice notice_of(std::string_view reason) {
  C10dNotice notice{.has_arrived = 1};
  std::copy_n(reason.begin(), std::min(reason.size(), notice.reason.size() - 1),
              notice.reason.begin());
  return notice;
}

C10dNotice notice_of(std::uint64_t steps) { return {.steps = steps, .has_arrived = 1}; }

C10dNotices::C10dNotices(c10d::Backend& backend, const C10dNotice& notice) : notice_(notice) {
  for (int peer = 0; peer < backend.getSize(); ++peer) {
    if (peer == backend.getRank()) continue;
    try {
      std::vector<at::Tensor> tensors = tensor_over(notice_);
      sends_.push_back(backend.send(tensors, peer, kNoticeTag));
    } catch (const std::exception&) {
      continue;  // the peer is gone and needs no notice
    }
  }
}

C10dWatch::C10dWatch(c10d::Backend& backend, PeerEvents& events)
    : events_(events), peers_(static_cast<std::size_t>(backend.getSize() - 1)) {
  auto rank = static_cast<std::uint32_t>(backend.getRank());
  for (Peer& peer : peers_) {
    peer.rank = ++rank % static_cast<std::uint32_t>(backend.getSize());
    std::vector<at::Tensor> room = tensor_over(peer.notice);
    peer.work = backend.recv(room, static_cast<int>(peer.rank), kNoticeTag);
  }
  thread_ = std::thread([this] { run(); });
}

C10dWatch::~C10dWatch() { stop(); }

void C10dWatch::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  closing_.notify_one();
  thread_.join();
}

void C10dWatch::run() {
  pthread_setname_np(pthread_self(), "nf_watch");
  const auto interval = kPollInterval + peers_.size() * kPollIntervalPerPeer;
  std::unique_lock lock(mutex_);
  while (!closing_.wait_for(lock, interval, [this] { return is_closing_; })) {
    lock.unlock();
    for (Peer& peer : peers_) {
      if (peer.work != nullptr) poll(peer);
    }
    lock.lock();
  }
}

// Gloo cannot tell whether a receive has completed without waiting for it. But a wait that was
// aborted before it began returns immediately, or throws if the connection is lost; and the last
// byte of a notice is not zero, so its arrival shows that the wait will not block.
void C10dWatch::poll(Peer& peer) {
  const bool has_arrived =
      std::atomic_ref(peer.notice.has_arrived).load(std::memory_order_relaxed) != 0;
  try {
    if (!has_arrived) peer.work->abort();
    if (!peer.work->wait(kNoTimeout)) return;
    report(peer);
  } catch (const std::exception& error) {
    events_.add_lost(peer.rank, first_line(error.what()));
  }
  peer.work.reset();
}

void C10dWatch::report(Peer& peer) {
  peer.notice.reason.back() = 0;
  if (peer.notice.reason.front() == 0) {
    events_.add_shutdown(peer.rank, peer.notice.steps);
  } else {
    events_.add_aborted(peer.rank, peer.notice.reason.data());
  }
}

}  // namespace nf::torch_front
