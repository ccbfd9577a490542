#include "collective/traffic_model.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "collective/agreement.h"
#include "collective/dissemination.h"
#include "collective/exchange_part.h"
#include "collective/host_groups.h"
#include "collective/low_rank_all_reduce.h"
#include "collective/schedule.h"
#include "collective/shard_borders.h"
#include "collective/tile_codec.h"
#include "collective/tile_size.h"
#include "neuron_fabric/reduce_scatter.h"

namespace nf {
namespace {

// Dependent transfers until all ranks have the chunk.
std::uint32_t depth_of(const ChunkPath& path, std::uint32_t ranks) {
  std::vector<std::uint32_t> depths(ranks, 0);
  const auto pass = [&](const std::vector<Edge>& edges) {
    for (const Edge& edge : edges) {
      depths[edge.to] = std::max(depths[edge.to], depths[edge.from] + 1);
    }
  };
  pass(path.reduce);
  const std::uint32_t summed = depths[path.owner];
  depths.assign(ranks, summed);
  pass(path.gather);
  return *std::max_element(depths.begin(), depths.end());
}

std::uint32_t depth_of(Topology topology, std::uint32_t ranks, Collective collective) {
  std::uint32_t deepest = 0;
  for (std::uint32_t chunk = 0; chunk < chunk_count(topology, ranks); ++chunk) {
    ChunkPath path = chunk_path(topology, ranks, chunk);
    if (collective == Collective::kReduceScatter) path.gather.clear();
    deepest = std::max(deepest, depth_of(path, ranks));
  }
  return deepest;
}

Schedule schedule_of(Topology topology, std::uint32_t ranks, std::uint32_t rank,
                     Collective collective) {
  const Schedule schedule = make_schedule(topology, ranks, rank);
  return collective == Collective::kReduceScatter ? reduce_part(schedule) : schedule;
}

// The bytes that Executor sends.
std::uint64_t payload_bytes(const Schedule& schedule, const TileCodec& codec) {
  std::uint64_t bytes = 0;
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::kReduceSend && step.kind != StepKind::kGatherSend) continue;
    for (std::uint32_t index = 0; index < codec.plans->tiles(step.chunk); ++index) {
      const TileCodec::Tile tile{step.chunk, index};
      if (codec.is_empty(tile)) continue;
      bytes += kFrameHeaderBytes + codec.message_size(tile, step.contributions);
    }
  }
  return bytes;
}

// The bytes that StatisticsStage sends for one codec.
std::uint64_t statistics_bytes(const Dissemination& pattern, const Codec& codec,
                               std::span<const Piece> domain, std::uint32_t rank) {
  TileMap shares;
  shares.cut_evenly(codec.granule(), domain, pattern.ranks());
  std::vector<std::uint64_t> sizes(pattern.ranks(), 0);
  for (std::uint32_t owner = 0; owner < pattern.ranks(); ++owner) {
    for (const Piece& piece : shares.pieces(owner, 0)) {
      sizes[owner] += codec.statistics_size(piece.count);
    }
  }
  return pattern.bytes_sent(rank, kFrameHeaderBytes,
                            [&](std::uint32_t owner) { return sizes[owner]; });
}

// The stages of an exchange of one part.
Expected<TrafficModel> model_codec(const AllReduceOptions& options, Collective collective,
                                   std::span<const std::size_t> counts, const ShardBorders& borders,
                                   std::uint32_t ranks, std::uint32_t rank) {
  const Expected<std::unique_ptr<Codec>> codec = make_codec(options.codec);
  if (!codec) return codec.status();
  NF_RETURN_IF_ERROR(ExchangePart::check(**codec, options, ranks));
  TrafficModel model;
  if (ranks <= 1) return model;
  model.bytes = Agreement::bytes_to_send(ranks);
  model.hops = Agreement::rounds(ranks);

  std::vector<Piece> domain;
  std::vector<ParameterView> views;
  std::size_t statistics = 0;
  for (const std::size_t count : counts) {
    domain.push_back({.parameter = domain.size(), .first = 0, .count = count});
    views.push_back({.result = Values(nullptr, count, DataType::kFloat32),
                     .work = Values(nullptr, count, DataType::kFloat32)});
    statistics += (*codec)->statistics_size(count);
  }
  Topology topology = options.topology;
  if (topology == Topology::kHierarchical) {
    const std::uint32_t group = options.host_group_size;
    const Expected<std::unique_ptr<Codec>> dense = make_codec("fp32");
    if (!dense) return dense.status();
    ChunkPlans plans(**dense, {.ranks = group});
    plans.make_even((*codec)->granule(),
                    {.pieces = domain, .counts = counts, .borders = borders.by_position}, group,
                    tile_size(**dense, domain, group, options.tile_bytes));
    model.inside_bytes =
        payload_bytes(schedule_of(Topology::kDirect, group, rank % group, collective),
                      {.plans = &plans, .parameters = views});
    model.inside_hops = depth_of(Topology::kDirect, group, collective);
    model.bytes += model.inside_bytes;
    model.hops += model.inside_hops;
    plans.pieces_of(rank % group, domain);
    ranks /= group;
    rank /= group;
    topology = topology_between_hosts(collective);
  }
  if (ranks == 1) return model;
  if (statistics > 0) {
    const Dissemination pattern(ranks);
    model.bytes += statistics_bytes(pattern, **codec, domain, rank);
    model.hops += 2 * pattern.rounds();
  }
  ChunkPlans plans(**codec, {.ranks = ranks,
                             .shape = sum_shape(topology),
                             .gathers = collective == Collective::kAllReduce});
  const std::uint32_t chunks = chunk_count(topology, ranks);
  plans.cut({.pieces = domain, .counts = counts, .borders = borders.by_host}, chunks,
            tile_size(**codec, domain, chunks, options.tile_bytes));
  model.bytes += payload_bytes(schedule_of(topology, ranks, rank, collective),
                               {.plans = &plans, .parameters = views});
  model.hops += depth_of(topology, ranks, collective);
  return model;
}

// The two sums of LowRankAllReduce, at full precision.
Expected<TrafficModel> model_low_rank(const AllReduceOptions& options,
                                      std::span<const ParameterShape> parameters,
                                      std::uint32_t ranks, std::uint32_t rank) {
  const Expected<std::uint32_t> terms = LowRankAllReduce::terms_of(options.codec);
  if (!terms) return terms.status();
  std::vector<std::size_t> first;
  std::vector<std::size_t> second;
  for (const auto& [count, given_rows] : parameters) {
    NF_RETURN_IF_ERROR(LowRankAllReduce::check_rows(count, given_rows));
    const std::size_t rows = given_rows == 0 ? 1 : given_rows;
    if (low_rank_values(rows, count / rows, *terms) == count) {
      first.push_back(count);
    } else {
      first.push_back(*terms * rows);
      second.push_back(*terms * (count / rows));
    }
  }
  AllReduceOptions of_factors = options;
  of_factors.codec = "fp32";
  TrafficModel sum;
  for (const std::vector<std::size_t>& counts : {first, second}) {
    const Expected<TrafficModel> one =
        model_codec(of_factors, Collective::kAllReduce, counts, {}, ranks, rank);
    if (!one) return one.status();
    sum.bytes += one->bytes;
    sum.hops += one->hops;
    sum.inside_bytes += one->inside_bytes;
    sum.inside_hops += one->inside_hops;
  }
  return sum;
}

std::uint32_t owner_of_smallest(std::span<const std::vector<std::size_t>> shards) {
  const auto smallest = std::ranges::min_element(shards, {}, [](const auto& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  });
  return static_cast<std::uint32_t>(smallest - shards.begin());
}

}  // namespace

Expected<TrafficModel> model_traffic(const AllReduceOptions& options,
                                     std::span<const ParameterShape> parameters,
                                     std::uint32_t ranks, std::uint32_t rank) {
  const Expected<CodecSpec> spec = CodecSpec::parse(options.codec);
  if (!spec) return spec.status();
  if (spec->name == LowRankAllReduce::kName) {
    return model_low_rank(options, parameters, ranks, rank);
  }
  std::vector<std::size_t> counts;
  for (const ParameterShape& parameter : parameters) counts.push_back(parameter.count);
  return model_codec(options, Collective::kAllReduce, counts, {}, ranks, rank);
}

Expected<TrafficModel> model_traffic(std::string_view codec, std::span<const std::size_t> counts,
                                     std::uint32_t ranks, Topology topology) {
  std::vector<ParameterShape> shapes;
  for (const std::size_t count : counts) shapes.push_back({.count = count});
  return model_traffic({.codec = std::string(codec), .topology = topology}, shapes, ranks);
}

Expected<TrafficModel> model_reduce_scatter(const AllReduceOptions& options,
                                            std::span<const std::vector<std::size_t>> shards,
                                            std::optional<std::uint32_t> rank) {
  NF_RETURN_IF_ERROR(ReduceScatter::check(options));
  if (!rank) rank = owner_of_smallest(shards);
  const auto ranks = static_cast<std::uint32_t>(shards.size());
  const std::uint32_t positions = positions_of(options);
  std::vector<std::size_t> counts;
  std::vector<std::size_t> sizes;
  for_each_owner(ranks, positions, [&](std::uint32_t owner) {
    counts.insert(counts.end(), shards[owner].begin(), shards[owner].end());
    sizes.push_back(shards[owner].size());
  });
  ShardBorders borders;
  if (ranks % positions == 0) NF_RETURN_IF_ERROR(borders.assign(sizes, ranks, positions, *rank));
  return model_codec(options, Collective::kReduceScatter, counts, borders, ranks, *rank);
}

}  // namespace nf
