#include "peer_events.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "transport/peer_status.h"

namespace nf::torch_front {
namespace {

// A notice overtakes messages that its rank sent before it; they get this time to arrive. A failed
// transfer waits as long for a notice that was sent before the connection closed.
constexpr Duration kNoticeWait = std::chrono::milliseconds(200);

Duration now() { return std::chrono::steady_clock::now().time_since_epoch(); }

Status lost(std::uint32_t peer, const std::string& reason) {
  return {ErrorCode::kPeerLost, c10::str(peer_lost(peer).message(), ": ", reason)};
}

}  // namespace

void PeerEvents::add_done(Transfer& transfer) {
  {
    const std::lock_guard lock(mutex_);
    done_.push_back(&transfer);
  }
  changed_.notify_all();
}

void PeerEvents::add_failed(std::uint32_t peer, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_.status.ok()) failed_ = {.peer = peer, .status = lost(peer, reason), .when = now()};
  }
  changed_.notify_all();
}

void PeerEvents::add_lost(std::uint32_t peer, const std::string& reason) {
  add({.peer = peer, .status = lost(peer, reason)});
}

void PeerEvents::add_aborted(std::uint32_t peer, const std::string& reason) {
  add({.peer = peer, .status = {ErrorCode::kAborted, reason}});
}

void PeerEvents::add_shutdown(std::uint32_t peer, std::uint64_t steps) {
  add({.peer = peer,
       .status = lost(peer, c10::str("it has ended after ", steps, " steps")),
       .steps = steps});
}

void PeerEvents::add(Departure departure) {
  {
    const std::lock_guard lock(mutex_);
    departure.when = now();
    departures_.push_back(std::move(departure));
  }
  changed_.notify_all();
}

const PeerEvents::Departure* PeerEvents::departure_of(std::uint32_t peer) const {
  const auto it = std::ranges::find(departures_, peer, &Departure::peer);
  return it == departures_.end() ? nullptr : &*it;
}

PeerEvents::Verdict PeerEvents::verdict(std::span<const PendingTransfer> pending) const {
  const auto peer_aborted = [this](std::uint32_t peer) {
    const Departure* const departure = departure_of(peer);
    return departure != nullptr && departure->status.code() == ErrorCode::kAborted ? departure
                                                                                   : nullptr;
  };
  if (!failed_.status.ok()) {
    if (const Departure* const why = peer_aborted(failed_.peer)) return {why->status, why->when};
    if (departure_of(failed_.peer) != nullptr) return {failed_.status, failed_.when};
    return {failed_.status, failed_.when + kNoticeWait};
  }
  for (const PendingTransfer& own : pending) {
    const Departure* const why = peer_aborted(own.peer);
    if (why != nullptr) return {why->status, why->when + kNoticeWait};
  }
  return {};
}

void PeerEvents::wait(std::unique_lock<std::mutex>& lock, Duration until) {
  changed_.wait_until(lock, std::chrono::steady_clock::time_point(until));
}

Status PeerEvents::first_missed(std::uint64_t step, Duration timeout) {
  std::unique_lock lock(mutex_);
  const auto find = [&] {
    return std::ranges::find_if(departures_, [&](const Departure& d) { return d.steps <= step; });
  };
  changed_.wait_for(lock, timeout, [&] { return find() != departures_.end(); });
  const auto it = find();
  return it == departures_.end() ? Status() : it->status;
}

}  // namespace nf::torch_front
