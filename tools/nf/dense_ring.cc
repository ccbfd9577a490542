#include "nf/dense_ring.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace nf::cli {

Expected<DenseSockets> DenseSockets::create(std::uint32_t ranks) {
  DenseSockets sockets;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
      return Status(ErrorCode::kUnsupported,
                    fmt::format("no sockets between ranks: {}", std::strerror(errno)));
    }
    sockets.ends_.insert(sockets.ends_.end(), {pair[0], pair[1]});
  }
  return sockets;
}

DenseSockets::~DenseSockets() {
  for (const int end : ends_) {
    if (end >= 0) close(end);
  }
}

void DenseSockets::keep(std::uint32_t rank) {
  const int own[] = {to_next(rank), from_previous(rank)};
  for (int& end : ends_) {
    if (std::find(std::begin(own), std::end(own), end) != std::end(own)) continue;
    close(std::exchange(end, -1));
  }
}

DenseRing::DenseRing(const DenseSockets& sockets, std::uint32_t rank, std::uint32_t ranks,
                     std::size_t values)
    : to_(sockets.to_next(rank)),
      from_(sockets.from_previous(rank)),
      ranks_(ranks),
      own_((values + ranks - 1) / ranks),
      received_(own_.size()),
      thread_([this] { run(); }) {}

DenseRing::~DenseRing() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  for (const int end : {to_, from_}) shutdown(end, SHUT_RDWR);  // nobody waits for a sum any more
  thread_.join();
}

void DenseRing::start() {
  {
    const std::lock_guard lock(mutex_);
    is_asked_ = true;
  }
  changed_.notify_all();
}

void DenseRing::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !is_asked_ || is_over_; });
}

void DenseRing::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_asked_ || is_over_; });
    if (is_over_) return;
    lock.unlock();
    const bool is_summed = sum();
    lock.lock();
    is_asked_ = false;
    if (!is_summed) is_over_ = true;
    changed_.notify_all();
  }
}

// Which part it is makes no difference to the time.
bool DenseRing::sum() {
  for (std::uint32_t hop = 0; hop < 2 * (ranks_ - 1); ++hop) {
    if (!pass(own_.size() * sizeof(float))) return false;
    if (hop + 1 >= ranks_) continue;  // all sums are made: the rest is told
    for (std::size_t i = 0; i < own_.size(); ++i) own_[i] += received_[i];
  }
  return true;
}

// To the next and from the previous rank at the same time. False where one of them is gone.
bool DenseRing::pass(std::size_t bytes) {
  const auto* out = reinterpret_cast<const std::byte*>(own_.data());
  auto* in = reinterpret_cast<std::byte*>(received_.data());
  std::size_t to_send = bytes;
  std::size_t to_receive = bytes;
  while (to_send > 0 || to_receive > 0) {
    pollfd ends[] = {{.fd = to_send > 0 ? to_ : -1, .events = POLLOUT, .revents = 0},
                     {.fd = to_receive > 0 ? from_ : -1, .events = POLLIN, .revents = 0}};
    poll(ends, std::size(ends), -1);
    if (ends[0].revents != 0) {
      const ssize_t sent = send(to_, out + bytes - to_send, to_send, MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) return false;
      to_send -= static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    }
    if (ends[1].revents != 0) {
      const ssize_t got = recv(from_, in + bytes - to_receive, to_receive, 0);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
      to_receive -= static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    }
  }
  return true;
}

}  // namespace nf::cli
