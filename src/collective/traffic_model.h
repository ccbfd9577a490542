// What an all-reduce will cost a rank, from sizes alone and without running it: the bytes are those
// that AllReduce::traffic() will count, since messages have the sizes that the plan gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "neuron_fabric/all_reduce.h"

namespace nf {

struct ParameterShape {
  std::size_t count = 0;  // values
  std::size_t rows = 0;   // of a matrix; 0 for anything else
};

struct TrafficModel {
  std::uint64_t bytes = 0;  // sent: agreement, statistics and payload, frames and all
  std::uint32_t hops = 0;   // transfers that wait for each other on the longest way
  // Of those, inside a group of kHierarchical, whose link is another than that between groups.
  std::uint64_t inside_bytes = 0;
  std::uint32_t inside_hops = 0;
};

// Of one call with all of these parameters. Rank 0 is the busiest in every topology, to within a
// granule a message, so it speaks for all; every rank finds the same figures for it. Fails where
// AllReduce::create() would, or a shape cannot be.
Expected<TrafficModel> model_traffic(const AllReduceOptions& options,
                                     std::span<const ParameterShape> parameters,
                                     std::uint32_t ranks, std::uint32_t rank = 0);
// Of rank 0, for parameters that are no matrices, with all other options as they are by default.
Expected<TrafficModel> model_traffic(std::string_view codec, std::span<const std::size_t> counts,
                                     std::uint32_t ranks, Topology topology);

}  // namespace nf
