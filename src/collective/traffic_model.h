// Predicts the traffic of an all-reduce or reduce-scatter from sizes alone, without running it. The
// bytes are exactly those that traffic() counts, since message sizes depend only on the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "neuron_fabric/all_reduce.h"

namespace nf {

struct ParameterShape {
  std::size_t count = 0;  // values
  std::size_t rows = 0;   // of a matrix, otherwise 0
};

struct TrafficModel {
  std::uint64_t bytes = 0;  // sent: agreement, statistics and payload, frame headers included
  std::uint32_t hops = 0;   // dependent transfers on the longest path
  // The part within a host group of kHierarchical, whose links differ from those between hosts.
  std::uint64_t inside_bytes = 0;
  std::uint32_t inside_hops = 0;
};

// The traffic of one call with all of these parameters. Rank 0 sends the most in every topology, to
// within one granule per message, so by default the model is for rank 0, on every rank. Fails if
// AllReduce::create() would fail or a shape is invalid.
Expected<TrafficModel> model_traffic(const AllReduceOptions& options,
                                     std::span<const ParameterShape> parameters,
                                     std::uint32_t ranks, std::uint32_t rank = 0);
// The traffic of rank 0 for parameters that are not matrices, with all other options at their
// defaults.
Expected<TrafficModel> model_traffic(std::string_view codec, std::span<const std::size_t> counts,
                                     std::uint32_t ranks, Topology topology);

// The traffic of one reduce-scatter. `shards` has the sizes of the parameters of each shard. By
// default for the rank that sends the most: over kDirect, the owner of the smallest shard. Fails if
// ReduceScatter::create() would fail.
Expected<TrafficModel> model_reduce_scatter(const AllReduceOptions& options,
                                            std::span<const std::vector<std::size_t>> shards,
                                            std::optional<std::uint32_t> rank = std::nullopt);

}  // namespace nf
