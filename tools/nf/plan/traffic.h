// What one rank of a job sends and receives for each step of a model: its contribution goes to a
// reducer, and the sum of all ranks comes back. Sizes are those of messages really encoded, from
// generated values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "neuron_fabric/status.h"
#include "nf/plan/shapes.h"
#include "nf/support/progress.h"

namespace nf::cli {

struct Route {
  std::string pattern;  // a glob on parameter names, as fc.*
  std::string codec;    // its spelling
};

struct RouteTraffic {
  Route route;
  std::size_t parameters = 0;
  std::uint64_t values = 0;

  // Bytes of the contribution: the codes of the values, at what values cost between two scales, and
  // the rest of the messages, scales and padding.
  std::uint64_t codes = 0;
  std::uint64_t scales = 0;
  // Bytes of the statistics phase, each way.
  std::uint64_t statistics = 0;
  // Bytes of the messages that come back, which hold the sum of all ranks.
  std::uint64_t back = 0;

  std::uint64_t both_ways() const { return codes + scales + 2 * statistics + back; }
};

// The traffic of each route, in the order given. Of the routes that match a parameter the last one
// takes it; what none matches is `fp32`, as a last element with the pattern "(others)". Fails where
// a codec is unknown or cannot serve `ranks`.
Expected<std::vector<RouteTraffic>> measure_traffic(const ModelShapes& model,
                                                    std::span<const Route> routes,
                                                    std::uint32_t ranks, Progress& progress);

}  // namespace nf::cli
