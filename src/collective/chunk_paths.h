// The topologies, one file each: pure functions from (ranks, chunk) to the way of that chunk. They
// are called through chunk_path() (collective/schedule.h).
//
// In one round a rank sends a chunk at most once and receives it at most once, and what it receives
// of a chunk it passes on in a later round.
#pragma once

#include <cstdint>
#include <vector>

#include "collective/schedule.h"

namespace nf {

// Precondition of all: chunk < chunk_count of the topology. One rank has a route without edges.
ChunkPath ring_path(std::uint32_t ranks, std::uint32_t chunk);
ChunkPath tree_path(std::uint32_t ranks, std::uint32_t chunk);
ChunkPath halving_doubling_path(std::uint32_t ranks, std::uint32_t chunk);
ChunkPath direct_path(std::uint32_t ranks, std::uint32_t chunk);
ChunkPath endpoint_path(std::uint32_t ranks, std::uint32_t chunk);

// The edges of `reduce`, sorted by round, turned about and in the opposite order: a gather that
// takes as many rounds as the reduction. Every edge carries the finished sum of `ranks`.
std::vector<Edge> mirrored(const std::vector<Edge>& reduce, std::uint32_t ranks);

}  // namespace nf
