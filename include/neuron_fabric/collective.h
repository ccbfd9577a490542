// The kinds of collective calls.
#pragma once

#include <cstdint>
#include <string_view>

#include "neuron_fabric/status.h"
#include "neuron_fabric/topology.h"

namespace nf {

// Ranks send the value when they agree on a call: append new collectives at the end.
enum class Collective : std::uint8_t {
  kAllReduce,      // all ranks get the sum
  kReduceScatter,  // each rank gets the sum of its shard, in FP32
};

constexpr std::string_view to_string(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce: return "all_reduce";
    case Collective::kReduceScatter: return "reduce_scatter";
  }
  return "unknown";
}

// Fails with kBadConfig and lists the known names.
Expected<Collective> find_collective(std::string_view name);
// Fails with kBadConfig and lists the supported topologies if this one is not among them.
Status check_topology(Collective collective, Topology topology);

}  // namespace nf
