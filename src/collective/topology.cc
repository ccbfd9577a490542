#include "neuron_fabric/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <vector>

#include "collective/chunk_paths.h"
#include "collective/schedule.h"
#include "neuron_fabric/codec_spec.h"

namespace nf {
namespace {

struct TopologyInfo {
  Topology topology = Topology::kRing;
  std::string_view name;
  SumShape shape = SumShape::kChain;
  std::uint32_t (*chunks)(std::uint32_t ranks) = nullptr;
  ChunkPath (*path)(std::uint32_t ranks, std::uint32_t chunk) = nullptr;  // null for kHierarchical
  std::string_view description;
};

std::uint32_t one_per_rank(std::uint32_t ranks) { return ranks; }
std::uint32_t power_of_two(std::uint32_t ranks) { return std::bit_floor(ranks); }
std::uint32_t one(std::uint32_t /*ranks*/) { return 1; }
std::uint32_t none(std::uint32_t /*ranks*/) { return 0; }

// The table of topologies, in the order of help texts. Names, help texts, error messages,
// schedules, tests and the Python front are derived from it.
constexpr TopologyInfo kTable[] = {
    {Topology::kRing, "ring", SumShape::kChain, one_per_rank, ring_path,
     "each rank sends to its neighbour only; n - 1 hops each way"},
    {Topology::kTree, "tree", SumShape::kTree, one_per_rank, tree_path,
     "one binary tree per chunk, rotated over the ranks; about log2 n hops each way"},
    {Topology::kDirect, "direct", SumShape::kStar, one_per_rank, direct_path,
     "every rank sends to the owner of each chunk; one hop each way"},
    {Topology::kHalvingDoubling, "halving_doubling", SumShape::kTree, power_of_two,
     halving_doubling_path, "recursive halving, then doubling; log2 n rounds, for small messages"},
    {Topology::kEndpoint, "endpoint", SumShape::kStar, one, endpoint_path,
     "all ranks send to rank 0, which returns the sum"},
    {Topology::kHierarchical, "hierarchical", SumShape::kChain, none, nullptr,
     "full precision within host groups, compressed between them"},
};

constexpr std::size_t kCount = std::size(kTable);

constexpr auto kAll = [] {
  std::array<Topology, kCount> all{};
  std::ranges::transform(kTable, all.begin(), &TopologyInfo::topology);
  return all;
}();
static_assert(kAll.back() == Topology::kHierarchical, "flat_topologies() are all before it");

const TopologyInfo& info(Topology topology) {
  return *std::ranges::find(kTable, topology, &TopologyInfo::topology);
}

}  // namespace

std::span<const Topology> all_topologies() { return kAll; }

std::span<const Topology> flat_topologies() { return std::span(kAll).first(kCount - 1); }

std::string_view to_string(Topology topology) {
  // The value may come from another rank.
  const auto* found = std::ranges::find(kTable, topology, &TopologyInfo::topology);
  return found == std::end(kTable) ? "unknown" : found->name;
}

std::string to_string(std::span<const Topology> topologies) {
  std::string names;
  for (const Topology topology : topologies) {
    if (!names.empty()) names += ", ";
    names += to_string(topology);
  }
  return names;
}

std::string_view description(Topology topology) { return info(topology).description; }

Expected<Topology> find_topology(std::string_view name) {
  std::vector<std::string_view> names;
  for (const TopologyInfo& one : kTable) {
    if (one.name == name) return one.topology;
    names.push_back(one.name);
  }
  const std::string_view hint = nearest(name, names);
  return Status(ErrorCode::kBadConfig,
                fmt::format("topology '{}' is unknown; {}", name,
                            hint.empty() ? "known are " + to_string(all_topologies())
                                         : fmt::format("did you mean '{}'?", hint)));
}

SumShape sum_shape(Topology topology) { return info(topology).shape; }

std::uint32_t chunk_count(Topology topology, std::uint32_t ranks) {
  return info(topology).chunks(ranks);
}

ChunkPath chunk_path(Topology topology, std::uint32_t ranks, std::uint32_t chunk) {
  const auto path = info(topology).path;
  return path == nullptr ? ChunkPath() : path(ranks, chunk);
}

}  // namespace nf
