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

// Both ends of a connection of this machine with itself, or -1 where one could not be had.
std::pair<int, int> connect_pair(int listener) {
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  auto* const where = reinterpret_cast<sockaddr*>(&address);
  const int near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (getsockname(listener, where, &size) != 0 || connect(near, where, size) != 0) {
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
                fmt::format("no sockets between ranks: {}", std::strerror(error)));
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
    : to_{sockets.to_next(rank)},
      other_{sockets.from_previous(rank)},
      from_(ranks == 2 ? to_ : other_),
      ranks_(ranks),
      own_((values + ranks - 1) / ranks),
      received_(own_.size()),
      reader_([this] { read(); }),
      summer_([this] { run(); }) {}

DenseRing::~DenseRing() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  // Nobody waits for a sum any more.
  for (const End* end : {&to_, &from_}) shutdown(end->socket, SHUT_RDWR);
  summer_.join();
  reader_.join();
}

void DenseRing::start() {
  {
    const std::lock_guard lock(mutex_);
    is_asked_ = true;
  }
  changed_.notify_all();
}

bool DenseRing::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !is_asked_ || is_over_; });
  return !is_asked_;
}

void DenseRing::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_asked_ || is_over_; });
    if (is_over_) return;
    lock.unlock();
    const bool is_summed = sum();
    lock.lock();
    if (is_summed) {
      is_asked_ = false;
    } else {
      is_over_ = true;
    }
    changed_.notify_all();
  }
}

// Which part it is makes no difference to the time.
bool DenseRing::sum() {
  for (std::uint32_t hop = 0; hop < 2 * (ranks_ - 1); ++hop) {
    const bool is_to_be_added = hop + 1 < ranks_;  // then all sums are made: the rest is told
    if (!pass(is_to_be_added)) return false;
  }
  return true;
}

// To the next and from the previous rank at the same time. False where one of them is gone.
bool DenseRing::pass(bool is_to_be_added) {
  for (std::size_t half = 0; half < kUnderWay; ++half) {
    if (!send(from_, {.kind = Note::Kind::kReady})) return false;
    if (!send(to_, {.kind = Note::Kind::kHaveOne})) return false;
  }
  for (std::uint32_t half = 0; half < kUnderWay; ++half) {
    if (!wait_for(asked_for_, passed_ + half + 1)) return false;
    if (!send(to_, {.kind = Note::Kind::kMessage, .half = half})) return false;
    if (!send(to_, std::as_bytes(half_of(own_, half)))) return false;
  }
  for (std::uint32_t half = 0; half < kUnderWay; ++half) {
    if (!wait_for(arrived_, passed_ + half + 1)) return false;
    if (!is_to_be_added) continue;
    const auto own = half_of(own_, half);
    const auto other = half_of(received_, half);
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += other[i];
  }
  passed_ += kUnderWay;
  return true;
}

bool DenseRing::wait_for(const std::uint64_t& count, std::uint64_t least) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return count >= least || is_over_; });
  return count >= least;
}

bool DenseRing::send(End& end, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::unique_lock turn(end.mutex);
    const ssize_t sent =
        ::send(end.socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    const bool is_full = sent < 0 && errno == EAGAIN;
    turn.unlock();
    if (is_full) {
      pollfd room{.fd = end.socket, .events = POLLOUT, .revents = 0};
      poll(&room, 1, -1);
      continue;
    }
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

void DenseRing::read() {
  for (bool is_there = true; is_there;) {
    pollfd polled[] = {{.fd = to_.socket, .events = POLLIN, .revents = 0},
                       {.fd = &from_ == &to_ ? -1 : from_.socket, .events = POLLIN, .revents = 0}};
    poll(polled, std::size(polled), -1);
    if (polled[0].revents != 0) is_there = read_some(to_);
    if (polled[1].revents != 0) is_there = is_there && read_some(from_);
  }
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  changed_.notify_all();
}

// Where the next bytes of this end belong: in its note, then in the half that the note names.
std::span<std::byte> DenseRing::room_of(End& end) {
  const auto note = std::as_writable_bytes(std::span(&end.note, 1));
  if (end.got < note.size()) return note.subspan(end.got);
  return std::as_writable_bytes(half_of(received_, end.note.half)).subspan(end.got - note.size());
}

// False where the rank at the other end is gone.
bool DenseRing::read_some(End& end) {
  const std::unique_lock turn(end.mutex, std::try_to_lock);
  if (!turn) return true;
  const std::span<std::byte> room = room_of(end);
  const ssize_t got = recv(end.socket, room.data(), room.size(), MSG_DONTWAIT);
  if (got <= 0) return got < 0 && errno == EAGAIN;
  end.got += static_cast<std::size_t>(got);
  if (end.got < sizeof(Note)) return true;
  const bool is_message = end.note.kind == Note::Kind::kMessage;
  if (is_message && !room_of(end).empty()) return true;
  end.got = 0;
  heed(end.note);
  return true;
}

void DenseRing::heed(const Note& note) {
  const std::lock_guard lock(mutex_);
  if (note.kind == Note::Kind::kReady) ++asked_for_;
  if (note.kind == Note::Kind::kMessage) ++arrived_;
  changed_.notify_all();
}

std::span<float> DenseRing::half_of(std::vector<float>& part, std::size_t half) const {
  const std::size_t begin = part.size() * half / kUnderWay;
  return std::span(part).subspan(begin, part.size() * (half + 1) / kUnderWay - begin);
}

}  // namespace nf::cli
