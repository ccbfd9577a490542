// Reduces the statistics of a step over all ranks. The sums have the same bits on every rank, and
// the agreement before them gives all ranks the same loss scale.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/figure_sum.h"
#include "runtime/step_statistics.h"

namespace nf {

struct RouteSample {
  double error_energy = 0;
  double energy = 0;
};

struct RankStatistics {
  double loss = 0;  // sum of the observed losses
  std::uint32_t losses = 0;
  double lines = 0;
  double seconds = 0;
  bool capacity_breach = false;
  std::vector<RouteSample> samples;  // by region
  std::vector<BucketTimes> buckets;
};

// Belongs to the thread of end_step().
class StatisticsReducer {
 public:
  // Borrows the transport.
  StatisticsReducer(Transport& transport, std::uint64_t seed, Duration timeout);

  // Adds the statistics of all ranks to `statistics`. All ranks have the same numbers of regions
  // and buckets. If `adds_norms`, the norms in `statistics` are those of this rank's shard, and are
  // summed too. Replaces `scale` by the one that all ranks agree on; fails with kDisagreement if
  // they do not.
  Status sum(const RankStatistics& local, std::uint64_t epoch, bool adds_norms, LossScale& scale,
             StepStatistics& statistics);

  // Fails with kDisagreement on all ranks unless all of them begin the same step with the same
  // state. `state` is its hash.
  Status compare(std::uint64_t step, std::uint64_t state);

  // Gathers the `value` of every rank.
  Status gather(double value, std::vector<double>& by_rank);

 private:
  Status run(std::uint64_t step, std::uint64_t epoch, const LossScale& scale);

  FigureSum sum_;
  std::uint32_t rank_;
  std::uint32_t ranks_;
  std::vector<float> figures_;
};

}  // namespace nf
