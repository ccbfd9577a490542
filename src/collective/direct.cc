// Direct. Every rank sends its part of chunk c to rank c, which adds them all and sends the
// finished bytes to all ranks: two hops, one encode per contribution and one for the sum. Rank r
// sends to r + 1 in round 0, to r + 2 in round 1, and so on, so that in every round each rank
// receives from one other rank. A rank sends as many bytes as in a ring.
#include "collective/chunk_paths.h"

namespace nf {

ChunkPath direct_path(std::uint32_t ranks, std::uint32_t chunk) {
  ChunkPath path;
  path.owner = chunk;
  for (std::uint32_t distance = 1; distance < ranks; ++distance) {
    path.reduce.push_back({.round = distance - 1,
                           .from = (chunk + ranks - distance) % ranks,
                           .to = chunk,
                           .contributions = 1});
    path.gather.push_back({.round = distance - 1,
                           .from = chunk,
                           .to = (chunk + distance) % ranks,
                           .contributions = ranks});
  }
  return path;
}

}  // namespace nf
