// Ring. Chunk c starts at rank c + 1 and visits the ranks in order, adding one contribution per
// hop, until rank c holds the sum; then the finished bytes travel around the ring. In every round
// each rank sends one chunk to its right neighbour and receives one from its left: n - 1 rounds
// each way, over links between neighbours only.
#include "collective/chunk_paths.h"

namespace nf {

ChunkPath ring_path(std::uint32_t ranks, std::uint32_t chunk) {
  ChunkPath path;
  path.owner = chunk;
  for (std::uint32_t round = 0; round + 1 < ranks; ++round) {
    const std::uint32_t from = (chunk + 1 + round) % ranks;
    path.reduce.push_back(
        {.round = round, .from = from, .to = (from + 1) % ranks, .contributions = round + 1});
  }
  for (std::uint32_t round = 0; round + 1 < ranks; ++round) {
    const std::uint32_t from = (chunk + round) % ranks;
    path.gather.push_back(
        {.round = round, .from = from, .to = (from + 1) % ranks, .contributions = ranks});
  }
  return path;
}

}  // namespace nf
