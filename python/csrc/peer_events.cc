#include "peer_events.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "transport/peer_status.h"

namespace nf::torch_front {
namespace {

// A notice overtakes the messages that its rank sent before it: they get this long to arrive. And
// so long a transfer that failed waits for the notice that came before the end of its connection.
constexpr Duration kNoticePatience = std::chrono::milliseconds(200);

Duration now() { return std::chrono::steady_clock::now().time_since_epoch(); }

Status lost(std::uint32_t peer, const std::string& words) {
  return {ErrorCode::kPeerLost, c10::str(peer_lost(peer).message(), ": ", words)};
}

}  // namespace

void PeerEvents::tell_done(Transfer& transfer) {
  {
    const std::lock_guard lock(mutex_);
    done_.push_back(&transfer);
  }
  changed_.notify_all();
}

void PeerEvents::tell_failed(std::uint32_t peer, const std::string& words) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_.how.ok()) failed_ = {.peer = peer, .how = lost(peer, words), .when = now()};
  }
  changed_.notify_all();
}

void PeerEvents::tell_gone(std::uint32_t peer, const std::string& words) {
  tell({.peer = peer, .how = lost(peer, words)});
}

void PeerEvents::tell_notice(std::uint32_t peer, const std::string& reason) {
  tell({.peer = peer, .how = {ErrorCode::kAborted, reason}});
}

void PeerEvents::tell_goodbye(std::uint32_t peer, std::uint64_t steps) {
  tell({.peer = peer,
        .how = lost(peer, c10::str("it has ended after ", steps, " steps")),
        .steps = steps});
}

void PeerEvents::tell(Departure departure) {
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

PeerEvents::Verdict PeerEvents::verdict(std::span<const UnderWay> under_way) const {
  const auto peer_aborted = [this](std::uint32_t peer) {
    const Departure* const departure = departure_of(peer);
    return departure != nullptr && departure->how.code() == ErrorCode::kAborted ? departure
                                                                                : nullptr;
  };
  if (!failed_.how.ok()) {
    if (const Departure* const why = peer_aborted(failed_.peer)) return {why->how, why->when};
    if (departure_of(failed_.peer) != nullptr) return {failed_.how, failed_.when};
    return {failed_.how, failed_.when + kNoticePatience};
  }
  for (const UnderWay& own : under_way) {
    const Departure* const why = peer_aborted(own.peer);
    if (why != nullptr) return {why->how, why->when + kNoticePatience};
  }
  return {};
}

void PeerEvents::wait(std::unique_lock<std::mutex>& lock, Duration until) {
  changed_.wait_until(lock, std::chrono::steady_clock::time_point(until));
}

Status PeerEvents::first_missed(std::uint64_t step, Duration patience) {
  std::unique_lock lock(mutex_);
  const auto find = [&] {
    return std::ranges::find_if(departures_, [&](const Departure& d) { return d.steps <= step; });
  };
  changed_.wait_for(lock, patience, [&] { return find() != departures_.end(); });
  const auto it = find();
  return it == departures_.end() ? Status() : it->how;
}

}  // namespace nf::torch_front
