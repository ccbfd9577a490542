// One step in progress: the decisions for it and the measurements of its buckets.
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

// The layout of a bucket, the same on all ranks.
struct BucketLayout {
  std::vector<BucketSlot> slots;
  DataType type = DataType::kFloat32;
  std::size_t row_size = 0;  // in a reduce-scatter: the values of one row; otherwise 0

  friend bool operator==(const BucketLayout&, const BucketLayout&) = default;
};

// Bytes sent by this rank.
struct RegionTraffic {
  double low_bit_bytes = 0;
  double low_bit_up_bytes = 0;     // of these: contributions, without finished sums
  double sent_dense_bytes = 0;     // by the engine, or with the low-bit routes
  double sent_dense_up_bytes = 0;  // of these: contributions
  double dense_bytes = 0;          // that the engine would have sent for all values
  double seconds = 0;              // of its collectives on this rank, without the engine's
};

struct TrainingStep {
  // Decided before the first bucket.
  std::uint64_t epoch = 0;
  std::vector<Decision> decisions;  // by region
  std::vector<std::string> routes;  // in use, by region
  std::vector<std::string> wanted;  // of the profile, by region, whether admitted or not
  bool is_monitored = false;        // norms are computed and statistics reduced over ranks
  LossScale loss_scale;             // of this rank; of all ranks once statistics are reduced

  // Measured.
  Duration begin{};
  std::vector<BucketLayout> buckets;
  std::size_t finished_buckets = 0;
  bool has_begun_all = false;
  StepStatistics statistics;
  RankStatistics local;
  std::vector<RegionTraffic> traffic;            // by region
  std::vector<std::vector<GradientNorm>> norms;  // by bucket and region

  // Adds the norms to the statistics, in the order of buckets, so that all ranks get the same bits.
  // The energies are those of scaled gradients until unscale_norms().
  void add_norms() {
    for (const std::vector<GradientNorm>& bucket : norms) {
      for (std::size_t region = 0; region < bucket.size(); ++region) {
        statistics.regions[region].energy += bucket[region].energy;
        statistics.regions[region].non_finite += bucket[region].non_finite;
      }
    }
  }
  // Precondition: loss_scale is the one of all ranks.
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
