#include "runtime/topology_choice.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "collective/host_groups.h"
#include "collective/schedule.h"
#include "neuron_fabric/codec.h"

namespace nf {
namespace {

// Beyond this number of ranks, direct has too many connections and ring too many hops.
constexpr std::uint32_t kFewRanks = 32;
constexpr double kMargin = 0.1;
constexpr double kMarginPerDoubling = 0.05;  // of the encodes

bool has_feedback(const Profile& profile) {
  return std::ranges::any_of(profile.phases, [](const TrainingPhase& phase) {
    return std::ranges::any_of(phase.routes, [](const auto& entry) {
      const auto codec = make_codec(entry.second);
      return codec && (*codec)->keeps_residual();
    });
  });
}

// Whether hosts have several ranks each, and none has all of them.
bool has_host_groups(const FabricOptions& options, std::uint32_t ranks) {
  const std::uint32_t size = options.host_group_size;
  return size > 1 && size < ranks && ranks % size == 0;
}

bool encodes_add_error(const std::string& route) {
  const auto codec = make_codec(route);
  if (!codec) return false;  // powersgd, whose factors are dense
  const CodecKind kind = (*codec)->kind();
  return kind == CodecKind::kRequantising || kind == CodecKind::kMerging;
}

}  // namespace

Topology topology_of(const FabricOptions& options, const Profile& profile, std::uint32_t ranks) {
  if (options.topology) return *options.topology;
  if (has_host_groups(options, ranks) && !has_feedback(profile)) return Topology::kHierarchical;
  if (ranks <= kFewRanks) return Topology::kDirect;
  return options.collective == Collective::kReduceScatter ? Topology::kRing : Topology::kTree;
}

std::vector<Topology> topology_candidates(const FabricOptions& options, const Profile& profile,
                                          std::uint32_t ranks) {
  std::vector<Topology> candidates{topology_of(options, profile, ranks)};
  // Two ranks exchange the same messages along every topology.
  if (options.topology || options.collective != Collective::kAllReduce || ranks <= 2) {
    return candidates;
  }
  std::vector<Topology> others{Topology::kTree, Topology::kHalvingDoubling};
  if (ranks <= kFewRanks) {
    others.insert(others.end(), {Topology::kDirect, Topology::kRing});
  }
  for (const Topology other : others) {
    if (other != candidates.front()) candidates.push_back(other);
  }
  return candidates;
}

std::optional<TypicalBucket> typical_bucket(const Binding& binding, std::size_t bucket_values) {
  const std::uint64_t last_step = binding.profile().phases.back().from_step;
  std::map<std::string, std::size_t> by_route;
  std::size_t all = 0;
  std::size_t low_bit = 0;
  for (std::uint32_t i = 0; i < binding.parameters().size(); ++i) {
    const std::size_t count = binding.parameters()[i].count;
    all += count;
    const std::string& route = binding.route(binding.region_of(i), last_step);
    if (route == kDenseRoute || binding.is_small(i)) continue;
    low_bit += count;
    by_route[route] += count;
  }
  if (by_route.empty() || low_bit == 0 || bucket_values == 0) return {};
  const std::size_t buckets = (all - 1) / bucket_values + 1;
  const auto main =
      std::ranges::max_element(by_route, {}, [](const auto& entry) { return entry.second; });
  return TypicalBucket{.route = main->first, .values = (low_bit - 1) / buckets + 1};
}

std::uint32_t encodes_of(Topology topology, const std::string& route, std::uint32_t host_group_size,
                         std::uint32_t ranks) {
  if (!encodes_add_error(route)) return 1;
  if (topology == Topology::kHierarchical) {
    return encodes_of(topology_between_hosts(Collective::kAllReduce), route, 0,
                      ranks / host_group_size);
  }
  std::uint32_t most = 0;
  for (std::uint32_t chunk = 0; chunk < chunk_count(topology, ranks); ++chunk) {
    const ChunkPath path = chunk_path(topology, ranks, chunk);
    std::vector<std::uint32_t> before(ranks, 0);  // encodes of the values that a rank has
    for (const Edge& edge : path.reduce) {
      before[edge.to] = std::max(before[edge.to], before[edge.from] + 1);
    }
    most = std::max(most, before[path.owner] + 1);
  }
  return most;
}

Topology choose_topology(std::span<const TopologyTime> times) {
  const TopologyTime& first = times.front();
  const auto cost = [&first](const TopologyTime& one) {
    if (one.topology == first.topology) return one.seconds;
    const double doublings = std::log2(static_cast<double>(one.encodes) / first.encodes);
    return one.seconds * (1 + kMargin + kMarginPerDoubling * std::max(0.0, doublings));
  };
  return std::ranges::min_element(times, {}, cost)->topology;
}

}  // namespace nf
