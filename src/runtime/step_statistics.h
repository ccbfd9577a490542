// The globally reduced statistics of a step. Every rank holds the same bits, so a pure function of
// them needs no further agreement.
#pragma once

#include <cstdint>
#include <vector>

namespace nf {

struct RegionStatistics {
  // These describe the reduced gradient; in a reduce-scatter, this rank's shard of it until they
  // are summed.
  double energy = 0;             // of the finite values, without the loss scale
  std::uint64_t non_finite = 0;  // values
  // Summed over ranks: the error of the region's low-bit route on a rotating sample.
  double error_energy = 0;
  double sample_energy = 0;  // 0 if nothing was sampled
};

// Means over ranks, in seconds since the step's first bucket was ready.
struct BucketTimes {
  double ready = 0;
  double done = 0;
};

struct StepStatistics {
  std::uint64_t step = 0;
  std::vector<RegionStatistics> regions;
  double loss = 0;                      // mean over the ranks that observed one
  std::uint32_t losses = 0;             // the number of these ranks
  double lines = 0;                     // 64-byte lines that all ranks sent at low bits
  double seconds = 0;                   // mean time from first bucket to first bucket; 0 if unknown
  std::uint32_t capacity_breaches = 0;  // ranks whose reducer rejected data
  std::vector<BucketTimes> buckets;     // empty if times were not reduced
};

}  // namespace nf
