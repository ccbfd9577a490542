// The bytes that one rank sends and receives per step of a model: it sends its contribution to a
// reducer and receives the sum of all ranks. Sizes are those of messages encoded from generated
// values.
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
  std::string pattern;  // a glob on parameter names, such as "fc.*"
  std::string codec;    // its spelling
};

struct RouteTraffic {
  Route route;
  std::size_t parameters = 0;
  std::uint64_t values = 0;

  // Bytes of the contribution: the codes of the values (the marginal size of values between two
  // scales), and the rest of the messages: scales and padding.
  std::uint64_t codes = 0;
  std::uint64_t scales = 0;
  // Bytes of the statistics stage, each way.
  std::uint64_t statistics = 0;
  // Bytes of the messages with the sum of all ranks.
  std::uint64_t back = 0;

  std::uint64_t both_ways() const { return codes + scales + 2 * statistics + back; }
};

// The traffic of each route, in the given order. If several routes match a parameter, the last one
// applies. Parameters without a route are sent as fp32; their traffic is the last element, with the
// pattern "(others)". Fails if a codec is unknown or does not support so many ranks.
Expected<std::vector<RouteTraffic>> measure_traffic(const ModelShapes& model,
                                                    std::span<const Route> routes,
                                                    std::uint32_t ranks, Progress& progress);

}  // namespace nf::cli
