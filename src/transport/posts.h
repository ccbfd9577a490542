// The transfers that a rank has started and does not know to be done, for transports that match
// sends with receives themselves.
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

struct Post {
  enum class State : std::uint8_t {
    kWaiting,   // for the other end
    kMoving,    // somebody reads or writes the bytes
    kFinished,  // `size` is that of the message, whether there was room for it or not
  };

  // What the transfer said when it was started; the transfer itself belongs to its rank, whose
  // thread may look at it at any time.
  Transfer* transfer = nullptr;
  std::span<std::byte> bytes;
  std::uint32_t peer = 0;
  Direction direction = Direction::kSend;
  State state = State::kWaiting;
  std::size_t size = 0;
};

// In the order in which they were started. Keeps its memory, so it allocates only while it grows
// beyond what it ever held.
class Posts {
 public:
  Post& add(Transfer& transfer, Direction direction);
  // Null where there is none.
  Post* first_waiting(std::uint32_t peer, Direction direction);
  // Null where it has been forgotten.
  Post* find(const Transfer* transfer);

  bool has_moving() const;
  std::span<const Post> all() const { return posts_; }
  std::vector<std::uint32_t> peers() const;
  void clear() { posts_.clear(); }

  struct Settled {
    std::size_t done = 0;
    Status problem;  // a message that was too long; its transfer is not done
  };
  // Marks the transfers of finished posts as done and forgets these posts.
  Settled settle();

 private:
  std::vector<Post> posts_;
};

}  // namespace nf
