// Errors about peers, worded the same in all transports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "neuron_fabric/status.h"

namespace nf {

// Fails with kInvalidArgument if `peer` is not another of the `ranks` ranks.
Status check_peer(std::uint32_t peer, std::uint32_t rank, std::uint32_t ranks);

Status peer_lost(std::uint32_t peer);
// If `why` is itself kAborted, it is returned unchanged: it names the rank that failed first, and
// the message does not grow from rank to rank.
Status peer_aborted(std::uint32_t peer, const Status& why);
Status message_too_long(std::uint32_t peer, std::size_t size, std::size_t room);
// `peers` are those of the pending transfers, in any order, possibly with duplicates.
Status transfer_timed_out(std::uint32_t rank, std::span<const std::uint32_t> peers);

}  // namespace nf
