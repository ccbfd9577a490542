#include "transport/pending_transfers.h"

#include <algorithm>

#include "transport/peer_status.h"

namespace nf {

PendingTransfer& PendingTransfers::add(Transfer& transfer, Direction direction) {
  transfer.size = 0;
  transfer.is_done = false;
  return transfers_.emplace_back(PendingTransfer{.transfer = &transfer,
                                                 .bytes = transfer.bytes,
                                                 .peer = transfer.peer,
                                                 .direction = direction});
}

PendingTransfer* PendingTransfers::first_waiting(std::uint32_t peer, Direction direction) {
  const auto it = std::ranges::find_if(transfers_, [&](const PendingTransfer& pending) {
    return pending.peer == peer && pending.direction == direction &&
           pending.state == PendingTransfer::State::kWaiting;
  });
  return it == transfers_.end() ? nullptr : &*it;
}

PendingTransfer* PendingTransfers::find(const Transfer* transfer) {
  const auto it = std::ranges::find(transfers_, transfer, &PendingTransfer::transfer);
  return it == transfers_.end() ? nullptr : &*it;
}

bool PendingTransfers::has_moving() const {
  return std::ranges::find(transfers_, PendingTransfer::State::kMoving, &PendingTransfer::state) !=
         transfers_.end();
}

std::vector<std::uint32_t> PendingTransfers::peers() const {
  std::vector<std::uint32_t> peers;
  for (const PendingTransfer& pending : transfers_) peers.push_back(pending.peer);
  return peers;
}

PendingTransfers::CompletionResult PendingTransfers::complete_finished() {
  CompletionResult result;
  std::erase_if(transfers_, [&](const PendingTransfer& pending) {
    if (pending.state != PendingTransfer::State::kFinished) return false;
    if (pending.direction == Direction::kReceive && pending.size > pending.bytes.size()) {
      if (result.problem.ok())
        result.problem = message_too_long(pending.peer, pending.size, pending.bytes.size());
      return true;
    }
    pending.transfer->size = pending.size;
    pending.transfer->is_done = true;
    ++result.done;
    return true;
  });
  return result;
}

}  // namespace nf
