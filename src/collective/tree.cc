// Tree. Every chunk has its own binary tree. For chunk c a rank has position (rank - c) mod n. At
// level 0, position 0 sends to 1, 2 to 3, and so on; the receivers, and the last position if it is
// unpaired, pair again at the next level, until position n - 1 holds the sum:
//
//   level 0   0 -> 1     2 -> 3     4 -> 5     6
//   level 1        1 -------> 3          5 --> 6
//   level 2                   3 -------------> 6
//
// A level reduces k positions to ceil(k / 2), so the depth is ceil(log2 n) for any n. Over all
// chunks every rank has every position once: each sends and receives n - 1 messages, as in a ring.
// The finished bytes travel down the same tree.
#include <cstddef>
#include <utility>

#include "collective/chunk_paths.h"

namespace nf {

ChunkPath tree_path(std::uint32_t ranks, std::uint32_t chunk) {
  struct Holder {
    std::uint32_t rank;
    std::uint32_t contributions;
  };
  ChunkPath path;
  path.owner = (chunk + ranks - 1) % ranks;
  std::vector<Holder> holders;
  for (std::uint32_t position = 0; position < ranks; ++position) {
    holders.push_back({.rank = (chunk + position) % ranks, .contributions = 1});
  }
  for (std::uint32_t level = 0; holders.size() > 1; ++level) {
    std::vector<Holder> survivors;
    std::size_t next = 0;
    for (; next + 1 < holders.size(); next += 2) {
      const Holder& from = holders[next];
      const Holder& to = holders[next + 1];
      path.reduce.push_back(
          {.round = level, .from = from.rank, .to = to.rank, .contributions = from.contributions});
      survivors.push_back(
          {.rank = to.rank, .contributions = from.contributions + to.contributions});
    }
    if (next < holders.size()) survivors.push_back(holders[next]);
    holders = std::move(survivors);
  }
  path.gather = reverse_edges(path.reduce, ranks);
  return path;
}

}  // namespace nf
