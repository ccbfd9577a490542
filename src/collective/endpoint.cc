// Endpoint. The bucket is one chunk; every rank sends it to rank 0, which adds in rank order and
// sends the sum back to all. Rank 0 receives and sends n - 1 times as many bytes as the others, so
// this is for small buckets, for a rank 0 with a faster link, and as a model of a reducer in the
// network.
#include "collective/chunk_paths.h"

namespace nf {

ChunkPath endpoint_path(std::uint32_t ranks, std::uint32_t /*chunk*/) {
  ChunkPath path;
  path.owner = 0;
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    path.reduce.push_back({.round = rank - 1, .from = rank, .to = 0, .contributions = 1});
    path.gather.push_back({.round = rank - 1, .from = 0, .to = rank, .contributions = ranks});
  }
  return path;
}

}  // namespace nf
