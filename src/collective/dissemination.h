// The hops with which every rank sends one item to every other rank (scatter), and those with which
// it passes one item to all ranks (gather). Up to kDirectRanks ranks, each item takes one hop.
// Among more ranks, items travel in common messages: a rank sends at most 3 ceil(log4 n) messages
// instead of n - 1, in ceil(log4 n) rounds, and an item whose receiver is `offset` ranks after its
// source takes one hop for each digit of the offset in base 4 that is not zero.
//
// Scatter: in a hop, rank s sends to s + distance the items at s whose offset has the digit
// distance / weight at the place of the weight. Gather: rank s sends the items of the ranks s,
// s + 1, ... to s - distance. Hops of one weight form a round: they are independent of each other
// and depend on all earlier rounds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace nf {

class Dissemination {
 public:
  static constexpr std::uint32_t kDirectRanks = 32;
  static constexpr std::uint32_t kBase = 4;

  struct Hop {
    std::uint32_t round = 0;
    std::uint32_t weight = 1;
    std::uint32_t distance = 1;  // a multiple of the weight
    std::uint32_t count = 1;     // items in a message of the gather
  };

  explicit Dissemination(std::uint32_t ranks);

  std::uint32_t ranks() const { return ranks_; }
  // In the order in which they are made, the same in both directions.
  std::span<const Hop> hops() const { return hops_; }
  std::uint32_t rounds() const { return hops_.empty() ? 0 : hops_.back().round + 1; }

  // Calls visit(offset, receiver) for each item of the message that `sender` sends in a hop of the
  // scatter, in order. The offset identifies the item at both ends of the hop.
  template <typename Visit>
  void for_each_item(const Hop& hop, std::uint32_t sender, Visit visit) const {
    for (std::uint64_t first = hop.distance; first < ranks_; first += hop.weight * base_) {
      const auto receiver = static_cast<std::uint32_t>((sender + first) % ranks_);
      const std::uint64_t end = std::min<std::uint64_t>(first + hop.weight, ranks_);
      for (std::uint64_t offset = first; offset < end; ++offset) {
        visit(static_cast<std::uint32_t>(offset), receiver);
      }
    }
  }
  // The bytes that a rank sends in both directions: `header` per message, and item_size(r) for
  // each item of rank r.
  template <typename ItemSize>
  std::uint64_t bytes_sent(std::uint32_t rank, std::uint64_t header, ItemSize item_size) const {
    std::uint64_t bytes = 2 * header * hops_.size();
    for (const Hop& hop : hops_) {
      for_each_item(hop, rank, [&](std::uint32_t /*offset*/, std::uint32_t receiver) {
        bytes += item_size(receiver);
      });
      for (std::uint32_t i = 0; i < hop.count; ++i) bytes += item_size((rank + i) % ranks_);
    }
    return bytes;
  }
  // The number of hops of all items of the scatter for one receiver.
  std::uint64_t scatter_hops() const;

 private:
  std::uint32_t ranks_;
  std::uint64_t base_;
  std::vector<Hop> hops_;
};

}  // namespace nf
