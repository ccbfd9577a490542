// Endpoint. The bucket is one chunk; every rank sends it to rank 0, who adds in rank order and
// sends the sum back to each. Rank 0 receives and sends n - 1 times what the others do, so this is
// for small buckets, for a rank 0 with a link to spare, and for a reducer that sits in its place.
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
