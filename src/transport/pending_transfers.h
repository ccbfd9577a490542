// The started transfers of a rank that are not marked as done yet, for transports that match sends
// with receives themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "neuron_fabric/transport.h"

namespace nf {

enum class Direction : std::uint8_t { kSend, kReceive };

inline Direction opposite(Direction direction) {
  return direction == Direction::kSend ? Direction::kReceive : Direction::kSend;
}

struct PendingTransfer {
  enum class State : std::uint8_t {
    kWaiting,   // for the matching transfer of the peer
    kMoving,    // some thread reads or writes the bytes
    kFinished,  // `size` is that of the message, even if it exceeds the buffer
  };

  // A copy of the transfer's fields: the transfer itself belongs to the thread of its rank, which
  // may read it at any time.
  Transfer* transfer = nullptr;
  std::span<std::byte> bytes;
  std::uint32_t peer = 0;
  Direction direction = Direction::kSend;
  State state = State::kWaiting;
  std::size_t size = 0;
};

// In the order in which they were started. Keeps its capacity, so it allocates only when it grows
// beyond its previous maximum.
class PendingTransfers {
 public:
  PendingTransfer& add(Transfer& transfer, Direction direction);
  // Null if there is none.
  PendingTransfer* first_waiting(std::uint32_t peer, Direction direction);
  // Null if it is not pending.
  PendingTransfer* find(const Transfer* transfer);

  bool has_moving() const;
  std::span<const PendingTransfer> all() const { return transfers_; }
  std::vector<std::uint32_t> peers() const;
  void clear() { transfers_.clear(); }

  struct CompletionResult {
    std::size_t done = 0;
    Status problem;  // a message was too long; its transfer is not done
  };
  // Marks finished transfers as done and removes them.
  CompletionResult complete_finished();

 private:
  std::vector<PendingTransfer> transfers_;
};

}  // namespace nf
