// What transports say about peers, in the same words whichever of them says it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "neuron_fabric/status.h"

namespace nf {

// Fails with kInvalidArgument where `rank` of `ranks` has no such peer.
Status check_peer(std::uint32_t peer, std::uint32_t rank, std::uint32_t ranks);

Status peer_lost(std::uint32_t peer);
// A reason that came from another rank is passed on as it came: it names the rank where it began,
// and does not grow on its way round a ring.
Status gave_up(std::uint32_t peer, const Status& why);
Status too_long(std::uint32_t peer, std::size_t size, std::size_t room);
// `peers` are those of the transfers that did not end, in any order, some perhaps more than once.
Status too_late(std::uint32_t rank, std::span<const std::uint32_t> peers);

}  // namespace nf
