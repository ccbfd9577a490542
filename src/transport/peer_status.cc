#include "transport/peer_status.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace nf {

Status check_peer(std::uint32_t peer, std::uint32_t rank, std::uint32_t ranks) {
  if (peer >= ranks) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("rank {} does not exist: there are {} ranks", peer, ranks)};
  }
  if (peer == rank) {
    return {ErrorCode::kInvalidArgument, fmt::format("rank {} cannot be its own peer", rank)};
  }
  return {};
}

Status peer_lost(std::uint32_t peer) {
  return {ErrorCode::kPeerLost, fmt::format("rank {} is gone", peer)};
}

Status peer_aborted(std::uint32_t peer, const Status& why) {
  if (why.code() == ErrorCode::kAborted) return why;
  return {ErrorCode::kAborted, fmt::format("rank {} aborted: {}", peer, to_string(why))};
}

Status message_too_long(std::uint32_t peer, std::size_t size, std::size_t room) {
  return {ErrorCode::kCorruptFrame,
          fmt::format("message of {} bytes from rank {}, expected at most {}", size, peer, room)};
}

Status transfer_timed_out(std::uint32_t rank, std::span<const std::uint32_t> peers) {
  const std::set<std::uint32_t> by_rank(peers.begin(), peers.end());
  if (by_rank.empty()) {
    return {ErrorCode::kDeadlineExceeded,
            fmt::format("rank {} waits without a pending transfer", rank)};
  }
  return {ErrorCode::kDeadlineExceeded,
          fmt::format("rank {} timed out waiting for a transfer with rank {}", rank,
                      fmt::join(by_rank, ", "))};
}

}  // namespace nf
