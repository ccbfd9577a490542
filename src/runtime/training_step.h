// One step on its way: what was decided for it, and what is learnt of it bucket by bucket.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/fabric.h"
#include "neuron_fabric/time.h"
#include "runtime/decision.h"
#include "runtime/gradient_norm.h"
#include "runtime/statistics_reducer.h"
#include "runtime/step_statistics.h"

namespace nf {

// How a step's buckets lie: known once the step has begun its last one, and the same on all ranks.
struct BucketLayout {
  std::vector<BucketSlot> slots;
  DataType type = DataType::kFloat32;

  friend bool operator==(const BucketLayout&, const BucketLayout&) = default;
};

// Bytes sent by this rank.
struct RegionTraffic {
  double low_bit_bytes = 0;
  double low_bit_up_bytes = 0;  // of those: without finished sums
  double engine_bytes = 0;
  double dense_bytes = 0;  // what the engine would have sent for all of its values
  double seconds = 0;      // that its low-bit collectives took here
};

struct TrainingStep {
  // Decided before its first bucket.
  std::uint64_t epoch = 0;
  std::vector<Decision> decisions;  // by region
  std::vector<std::string> routes;  // in use, by region
  std::vector<std::string> wanted;  // what the profile names, were the region admitted
  bool is_monitored = false;        // norms are taken, and local statistics summed over ranks
  LossScale loss_scale;             // this rank's; that of all ranks once statistics are summed

  // Learnt.
  Duration begin{};
  std::vector<BucketLayout> buckets;
  std::size_t finished_buckets = 0;
  bool has_begun_all = false;
  StepStatistics statistics;
  RankStatistics local;
  std::vector<RegionTraffic> traffic;            // by region
  std::vector<std::vector<GradientNorm>> norms;  // by bucket and region

  // To the statistics, bucket after bucket, whichever was done first: all ranks hold the same bits.
  // The energies are those of scaled gradients until unscale_norms().
  void add_norms() {
    for (const std::vector<GradientNorm>& bucket : norms) {
      for (std::size_t region = 0; region < bucket.size(); ++region) {
        statistics.regions[region].energy += bucket[region].energy;
        statistics.regions[region].non_finite += bucket[region].non_finite;
      }
    }
  }
  // Precondition: loss_scale is that of all ranks.
  void unscale_norms() {
    const double unscale = 1.0 / (static_cast<double>(loss_scale.value) * loss_scale.value);
    for (RegionStatistics& region : statistics.regions) region.energy *= unscale;
  }
  bool is_finished() const { return has_begun_all && finished_buckets == buckets.size(); }
  // Whether all gradients are finite. Precondition: is_monitored, and all norms have been added.
  bool is_finite() const {
    return std::ranges::all_of(
        statistics.regions, [](const RegionStatistics& region) { return region.non_finite == 0; });
  }
};

}  // namespace nf
