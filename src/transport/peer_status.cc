#include "transport/peer_status.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace nf {

Status check_peer(std::uint32_t peer, std::uint32_t rank, std::uint32_t ranks) {
  if (peer >= ranks) {
    return {ErrorCode::kInvalidArgument, fmt::format("there is no rank {} among {}", peer, ranks)};
  }
  if (peer == rank) {
    return {ErrorCode::kInvalidArgument, fmt::format("rank {} is its own peer", rank)};
  }
  return {};
}

Status peer_lost(std::uint32_t peer) {
  return {ErrorCode::kPeerLost, fmt::format("rank {} is gone", peer)};
}

Status gave_up(std::uint32_t peer, const Status& why) {
  if (why.code() == ErrorCode::kAborted) return why;
  return {ErrorCode::kAborted, fmt::format("rank {} gave up: {}", peer, to_string(why))};
}

Status too_long(std::uint32_t peer, std::size_t size, std::size_t room) {
  return {ErrorCode::kCorruptFrame,
          fmt::format("message of {} bytes from rank {}, expected at most {}", size, peer, room)};
}

Status too_late(std::uint32_t rank, std::span<const std::uint32_t> peers) {
  const std::set<std::uint32_t> by_rank(peers.begin(), peers.end());
  if (by_rank.empty()) {
    return {ErrorCode::kDeadlineExceeded, fmt::format("rank {} waits, but for no transfer", rank)};
  }
  return {ErrorCode::kDeadlineExceeded,
          fmt::format("rank {} waited in vain for a transfer with rank {}", rank,
                      fmt::join(by_rank, ", "))};
}

}  // namespace nf
