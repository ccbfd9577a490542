#include "nf/bench/dense_ring.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace nf::cli {
namespace {

// The two ends of a loopback connection; an end is -1 on failure.
std::pair<int, int> connect_pair(int listener) {
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  auto* const socket_address = reinterpret_cast<sockaddr*>(&address);
  const int near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (getsockname(listener, socket_address, &size) != 0 ||
      connect(near, socket_address, size) != 0) {
    return {near, -1};
  }
  const int far = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  const int yes = 1;
  for (const int end : {near, far}) setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return {near, far};
}

}  // namespace

Expected<DenseSockets> DenseSockets::create(std::uint32_t ranks) {
  DenseSockets sockets;
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bool is_made = bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof(any)) == 0 &&
                 listen(listener, 1) == 0;
  for (std::uint32_t pairs = ranks == 2 ? 1 : ranks; is_made && pairs > 0; --pairs) {
    const auto [near, far] = connect_pair(listener);
    sockets.ends_.insert(sockets.ends_.end(), {near, far});
    is_made = far >= 0;
  }
  const int error = errno;
  if (listener >= 0) close(listener);
  if (is_made) return sockets;
  return Status(ErrorCode::kUnsupported,
                fmt::format("cannot connect the ranks by sockets: {}", std::strerror(error)));
}

DenseSockets::~DenseSockets() {
  for (const int end : ends_) {
    if (end >= 0) close(end);
  }
}

void DenseSockets::close_others(std::uint32_t rank) {
  const int own[] = {to_next(rank), from_previous(rank)};
  for (int& end : ends_) {
    if (std::find(std::begin(own), std::end(own), end) != std::end(own)) continue;
    close(std::exchange(end, -1));
  }
}

DenseRing::DenseRing(const DenseSockets& sockets, std::uint32_t rank, std::uint32_t ranks,
                     std::size_t values)
    : to_{sockets.to_next(rank)},
      other_{sockets.from_previous(rank)},
      from_(ranks == 2 ? to_ : other_),
      ranks_(ranks),
      own_((values + ranks - 1) / ranks),
      received_(own_.size()),
      read_thread_([this] { read(); }),
      sum_thread_([this] { run(); }) {}

DenseRing::~DenseRing() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
  // Unblocks both threads.
  for (const End* end : {&to_, &from_}) shutdown(end->socket, SHUT_RDWR);
  sum_thread_.join();
  read_thread_.join();
}

void DenseRing::start() {
  {
    const std::lock_guard lock(mutex_);
    is_requested_ = true;
  }
  changed_.notify_all();
}

bool DenseRing::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !is_requested_ || is_closed_; });
  return !is_requested_;
}

void DenseRing::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_requested_ || is_closed_; });
    if (is_closed_) return;
    lock.unlock();
    const bool is_summed = sum();
    lock.lock();
    if (is_summed) {
      is_requested_ = false;
    } else {
      is_closed_ = true;
    }
    changed_.notify_all();
  }
}

// Always sends the same part: the time does not depend on which part it is.
bool DenseRing::sum() {
  for (std::uint32_t hop = 0; hop < 2 * (ranks_ - 1); ++hop) {
    const bool should_add = hop + 1 < ranks_;  // reduce-scatter first, then all-gather
    if (!exchange(should_add)) return false;
  }
  return true;
}

// Sends to the next rank and receives from the previous one. Returns false if a rank is gone.
bool DenseRing::exchange(bool should_add) {
  for (std::size_t half = 0; half < kInFlight; ++half) {
    if (!send(from_, {.kind = Header::Kind::kReceiveReady})) return false;
    if (!send(to_, {.kind = Header::Kind::kSendReady})) return false;
  }
  for (std::uint32_t half = 0; half < kInFlight; ++half) {
    if (!wait_for(ready_, exchanged_ + half + 1)) return false;
    if (!send(to_, {.kind = Header::Kind::kData, .half = half})) return false;
    if (!send(to_, std::as_bytes(half_of(own_, half)))) return false;
  }
  for (std::uint32_t half = 0; half < kInFlight; ++half) {
    if (!wait_for(arrived_, exchanged_ + half + 1)) return false;
    if (!should_add) continue;
    const auto own = half_of(own_, half);
    const auto other = half_of(received_, half);
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += other[i];
  }
  exchanged_ += kInFlight;
  return true;
}

bool DenseRing::wait_for(const std::uint64_t& count, std::uint64_t target) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return count >= target || is_closed_; });
  return count >= target;
}

bool DenseRing::send(End& end, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::unique_lock turn(end.mutex);
    const ssize_t sent =
        ::send(end.socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    const bool is_full = sent < 0 && errno == EAGAIN;
    turn.unlock();
    if (is_full) {
      pollfd writable{.fd = end.socket, .events = POLLOUT, .revents = 0};
      poll(&writable, 1, -1);
      continue;
    }
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

void DenseRing::read() {
  for (bool is_connected = true; is_connected;) {
    pollfd polled[] = {{.fd = to_.socket, .events = POLLIN, .revents = 0},
                       {.fd = &from_ == &to_ ? -1 : from_.socket, .events = POLLIN, .revents = 0}};
    poll(polled, std::size(polled), -1);
    if (polled[0].revents != 0) is_connected = read_some(to_);
    if (polled[1].revents != 0) is_connected = is_connected && read_some(from_);
  }
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

// The destination of the next bytes: the header, then the half that the header names.
std::span<std::byte> DenseRing::target_of(End& end) {
  const auto header = std::as_writable_bytes(std::span(&end.header, 1));
  if (end.got < header.size()) return header.subspan(end.got);
  return std::as_writable_bytes(half_of(received_, end.header.half))
      .subspan(end.got - header.size());
}

// Returns false if the peer is gone.
bool DenseRing::read_some(End& end) {
  const std::unique_lock turn(end.mutex, std::try_to_lock);
  if (!turn) return true;
  const std::span<std::byte> target = target_of(end);
  const ssize_t got = recv(end.socket, target.data(), target.size(), MSG_DONTWAIT);
  if (got <= 0) return got < 0 && errno == EAGAIN;
  end.got += static_cast<std::size_t>(got);
  if (end.got < sizeof(Header)) return true;
  const bool is_data = end.header.kind == Header::Kind::kData;
  if (is_data && !target_of(end).empty()) return true;
  end.got = 0;
  handle(end.header);
  return true;
}

void DenseRing::handle(const Header& header) {
  const std::lock_guard lock(mutex_);
  if (header.kind == Header::Kind::kReceiveReady) ++ready_;
  if (header.kind == Header::Kind::kData) ++arrived_;
  changed_.notify_all();
}

std::span<float> DenseRing::half_of(std::vector<float>& part, std::size_t half) const {
  const std::size_t begin = part.size() * half / kInFlight;
  return std::span(part).subspan(begin, part.size() * (half + 1) / kInFlight - begin);
}

}  // namespace nf::cli
