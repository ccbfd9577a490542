// Who sends which chunk to whom, and in which order: all-reduce as a value, without any I/O.
//
// A bucket is cut into chunks. Each chunk is reduced along a tree of ranks towards its owner, who
// ends up with the sum; then the owner's finished bytes travel outward along another tree and are
// forwarded unchanged. A topology is a function from (ranks, chunk) to these two trees. The rest
// follows: what a rank does is the set of edges that touch it, ordered by round.
//
// Rounds order, they do not synchronise. On every rank, and so at both ends of every pair of ranks,
// messages are in the order (reduce before gather, round, chunk): the k-th message that a rank
// sends to another is the k-th that the other expects from it. A rank adds what it receives for a
// chunk in that order too, so the sum does not depend on who was faster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neuron_fabric/topology.h"

namespace nf {

// One message of one chunk.
struct Edge {
  std::uint32_t round = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t contributions = 1;  // ranks summed in it

  friend bool operator==(const Edge&, const Edge&) = default;
};

// The way of one chunk. In `reduce` every rank but the owner sends once, after all that it receives
// for this chunk; in `gather` every rank but the owner receives once, before it forwards. Both are
// sorted by round.
struct ChunkPath {
  std::uint32_t owner = 0;
  std::vector<Edge> reduce;
  std::vector<Edge> gather;
};

// Chunks into which `topology` cuts a bucket: `ranks`, but for kEndpoint (1) and kHalvingDoubling
// (the greatest power of two in `ranks`). Not for kHierarchical, which is made of two others
// (collective/codec_all_reduce.h).
std::uint32_t chunk_count(Topology topology, std::uint32_t ranks);
// Precondition: chunk < chunk_count(topology, ranks).
ChunkPath chunk_path(Topology topology, std::uint32_t ranks, std::uint32_t chunk);

enum class StepKind : std::uint8_t { kReduceReceive, kReduceSend, kGatherReceive, kGatherSend };

struct Step {
  StepKind kind = StepKind::kReduceSend;
  std::uint32_t round = 0;
  std::uint32_t chunk = 0;
  std::uint32_t peer = 0;
  std::uint32_t contributions = 1;

  friend bool operator==(const Step&, const Step&) = default;
};

// What one rank does, in order: by phase, round, then chunk; of one round it receives last.
struct Schedule {
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
  std::uint32_t chunks = 1;
  std::vector<std::uint32_t> owners;  // by chunk
  std::vector<Step> steps;
};

Schedule make_schedule(Topology topology, std::uint32_t ranks, std::uint32_t rank);
// Of all ranks at once, for simulations: each edge is visited once.
std::vector<Schedule> make_schedules(Topology topology, std::uint32_t ranks);

// The half of a schedule up to the owners' sums, and the half from there.
Schedule reduce_part(const Schedule& schedule);
Schedule gather_part(const Schedule& schedule);

// A line a step: "round 2  send   chunk 1 to 3    sum of 2".
std::string to_string(const Schedule& schedule);

}  // namespace nf
