// Recursive halving, then doubling. Among m = 2^k ranks, a rank exchanges in round s with the
// partner whose number differs in bit k - 1 - s: it sends the chunks whose number agrees with the
// partner's in that bit and keeps the others, so that its share halves every round and rank c ends
// with chunk c. The gather reverses these rounds: k rounds each way, each with one partner, for
// small buckets, where latency dominates.
//
// If n is not a power of two, m is the largest power of two below n. Rank m + i first sends every
// chunk to rank i, and receives the finished bytes last; it owns no chunk.
#include <bit>

#include "collective/chunk_paths.h"

namespace nf {

ChunkPath halving_doubling_path(std::uint32_t ranks, std::uint32_t chunk) {
  const std::uint32_t inner = std::bit_floor(ranks);
  ChunkPath path;
  path.owner = chunk;
  std::vector<std::uint32_t> held(inner, 1);  // contributions, by rank
  std::uint32_t round = 0;
  const auto send = [&](std::uint32_t from, std::uint32_t to, std::uint32_t contributions) {
    path.reduce.push_back({.round = round, .from = from, .to = to, .contributions = contributions});
    held[to] += contributions;
  };
  for (std::uint32_t rank = inner; rank < ranks; ++rank) send(rank, rank - inner, 1);
  if (inner < ranks) ++round;
  for (std::uint32_t distance = inner / 2; distance > 0; distance /= 2, ++round) {
    // The ranks that still hold a partial sum of the chunk agree with it in all higher bits; those
    // that differ from it in this bit send it.
    const std::uint32_t first = (chunk ^ distance) & ~(distance - 1);
    for (std::uint32_t rank = first; rank < first + distance; ++rank) {
      send(rank, rank ^ distance, held[rank]);
    }
  }
  path.gather = reverse_edges(path.reduce, ranks);
  return path;
}

}  // namespace nf
