// Measures topologies when a fabric is created, with sums of its own over the job's transport. It
// touches no state of the job: its collectives, values and route memory end with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "neuron_fabric/all_reduce.h"
#include "runtime/slowest_rank.h"
#include "runtime/topology_choice.h"

namespace nf {

class TopologyProbe {
 public:
  // Borrows transport and reducer. `sum` holds the options of the sums, with their route.
  TopologyProbe(Transport& transport, StatisticsReducer& reducer, const AllReduceOptions& sum)
      : transport_(transport), clock_(transport, reducer), sum_(sum) {}

  // The time of a bucket of `values` values along each candidate, in their order; the same on all
  // ranks, which call it at the same time. Times of large buckets are scaled from smaller ones.
  // Takes some tenths of a second: if that is used up, the last candidates are left out, but not
  // the first.
  Expected<std::vector<TopologyTime>> measure(std::span<const Topology> candidates,
                                              std::size_t values);

 private:
  // Seconds of the shortest of `rounds` sums of size_ values.
  Expected<double> time(AllReduce& sum, int rounds);
  // Sets size_, for a bucket of `values` values. Returns time() of that size.
  Expected<double> find_size(AllReduce& sum, std::size_t values);

  Transport& transport_;
  SlowestRank clock_;
  AllReduceOptions sum_;
  std::vector<float> own_;   // the values of this rank
  std::vector<float> work_;  // a copy, which is replaced by the sum
  std::uint64_t step_ = 0;
  std::size_t size_ = 0;  // values of a sum
  double spent_ = 0;      // seconds
};

struct TopologyChoice {
  Topology topology = Topology::kDirect;
  std::vector<TopologyTime> times = {};  // empty if nothing was measured
};

// The topology of a fabric. Measures if the options request it and there is something to choose.
Expected<TopologyChoice> decide_topology(Transport& transport, StatisticsReducer& reducer,
                                         const FabricOptions& options, const Binding& binding);

}  // namespace nf
