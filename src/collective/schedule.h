// Which rank sends which chunk to which peer, and in which order: the plan of an all-reduce,
// without any I/O.
//
// A bucket is cut into chunks. Each chunk is reduced along a tree of ranks towards its owner, which
// then holds the sum; then the owner's finished bytes are sent outward along another tree and
// forwarded unchanged. A topology is a function from (ranks, chunk) to these two trees, the chunk
// path. The schedule of a rank is the set of edges at that rank, ordered by round.
//
// Rounds define an order; they do not synchronise ranks. On every rank, and so at both ends of
// every pair of ranks, messages are in the order (reduce before gather, round, chunk): the k-th
// message that a rank sends to another is the k-th that the other expects from it. A rank adds
// received messages of a chunk in that order too, so the sum does not depend on timing.
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

// The path of one chunk. In `reduce`, every rank but the owner sends once, after its last receive
// of this chunk; in `gather`, every rank but the owner receives once, before it forwards. Both are
// sorted by round.
struct ChunkPath {
  std::uint32_t owner = 0;
  std::vector<Edge> reduce;
  std::vector<Edge> gather;
};

// Chunks into which `topology` cuts a bucket: `ranks`, except for kEndpoint (1) and
// kHalvingDoubling (the largest power of two up to `ranks`). 0 for kHierarchical, which combines
// two other topologies (collective/codec_all_reduce.h).
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

// The steps of one rank, in order: reduce before gather, then by round, sends before receives, then
// by chunk.
struct Schedule {
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
  std::uint32_t chunks = 1;
  std::vector<std::uint32_t> owners;  // by chunk
  std::vector<Step> steps;
};

Schedule make_schedule(Topology topology, std::uint32_t ranks, std::uint32_t rank);
// The schedules of all ranks, for simulations: visits each edge only once.
std::vector<Schedule> make_schedules(Topology topology, std::uint32_t ranks);

// The reduce half and the gather half of a schedule.
Schedule reduce_part(const Schedule& schedule);
Schedule gather_part(const Schedule& schedule);

// One line per step: "round 2  send   chunk 1 to 3    sum of 2".
std::string to_string(const Schedule& schedule);

}  // namespace nf
