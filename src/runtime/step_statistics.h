// What is known of a step once all ranks have had their say. Every rank holds the same bits of it,
// so whatever is a pure function of it needs no further agreement.
#pragma once

#include <cstdint>
#include <vector>

namespace nf {

struct RegionStatistics {
  // Of the reduced gradient, the same on every rank without being exchanged.
  double energy = 0;             // of its finite values, undone of the loss scale
  std::uint64_t non_finite = 0;  // values
  // Summed over ranks: what the region's low-bit route does, or would do, to a rotating sample.
  double error_energy = 0;
  double sample_energy = 0;  // 0 where nothing was sampled
};

// Means over ranks, in seconds since the step's first bucket was ready.
struct BucketTimes {
  double ready = 0;
  double done = 0;
};

struct StepStatistics {
  std::uint64_t step = 0;
  std::vector<RegionStatistics> regions;
  double loss = 0;           // mean over the ranks that observed one
  std::uint32_t losses = 0;  // how many did; 0 if nobody
  double lines = 0;          // 64-byte lines that all ranks sent at low bits
  double seconds = 0;        // mean length of a step, from first bucket to first bucket; 0: unknown
  std::uint32_t capacity_breaches = 0;  // ranks whose reducer refused work
  std::vector<BucketTimes> buckets;     // empty where times were not exchanged
};

}  // namespace nf
