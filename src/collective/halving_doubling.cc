// Recursive halving, then doubling. Among m = 2^k ranks, a rank exchanges at round s with the
// partner whose number differs in bit k - 1 - s: it sends the chunks whose number agrees with the
// partner's in that bit and keeps the others, so that what it still sums halves every round and
// rank c ends with chunk c. The gather is the mirror and doubles: k rounds each way, each with one
// partner, for small buckets where waiting costs more than bytes.
//
// Of n ranks that are no power of two, m is the greatest power of two in n. Rank m + i first folds
// into rank i, sending it every chunk, and gets the finished bytes last; it owns nothing.
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
    // The ranks that still hold a part of the chunk agree with it in all higher bits; those that
    // differ from it in this bit send it.
    const std::uint32_t first = (chunk ^ distance) & ~(distance - 1);
    for (std::uint32_t rank = first; rank < first + distance; ++rank) {
      send(rank, rank ^ distance, held[rank]);
    }
  }
  path.gather = mirrored(path.reduce, ranks);
  return path;
}

}  // namespace nf
