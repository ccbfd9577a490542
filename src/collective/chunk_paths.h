// The topologies, one file each: pure functions from (ranks, chunk) to the path of that chunk. The
// table in topology.cc lists them; call them through chunk_path() (collective/schedule.h).
//
// In one round a rank sends a chunk at most once and receives it at most once, and it forwards a
// received chunk in a later round.
#pragma once

#include <cstdint>
#include <vector>

#include "collective/schedule.h"

namespace nf {

// Precondition of all: chunk < chunk_count() of the topology. With one rank the path has no edges.
ChunkPath ring_path(std::uint32_t ranks, std::uint32_t chunk);
ChunkPath tree_path(std::uint32_t ranks, std::uint32_t chunk);
ChunkPath halving_doubling_path(std::uint32_t ranks, std::uint32_t chunk);
ChunkPath direct_path(std::uint32_t ranks, std::uint32_t chunk);
ChunkPath endpoint_path(std::uint32_t ranks, std::uint32_t chunk);

// The edges of `reduce`, which are sorted by round, with direction and order reversed: a gather
// that takes as many rounds as the reduction. Every edge carries the finished sum of `ranks` ranks.
std::vector<Edge> reverse_edges(const std::vector<Edge>& reduce, std::uint32_t ranks);

}  // namespace nf
