// Times work that all ranks do together.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "neuron_fabric/transport.h"
#include "runtime/statistics_reducer.h"

namespace nf {

// All ranks make the same calls, and all of them get the time of the slowest rank.
class SlowestRank {
 public:
  // Borrows both. The transport has the clock.
  SlowestRank(Transport& transport, StatisticsReducer& reducer)
      : transport_(transport), reducer_(reducer) {}

  // Seconds of `work`. The gather before acts as a barrier.
  template <typename Work>
  Expected<double> time(Work work) {
    std::vector<double> by_rank;
    NF_RETURN_IF_ERROR(reducer_.gather(0, by_rank));
    const Duration begin = transport_.now();
    NF_RETURN_IF_ERROR(work());
    const std::chrono::duration<double> own = transport_.now() - begin;
    NF_RETURN_IF_ERROR(reducer_.gather(own.count(), by_rank));
    return std::ranges::max(by_rank);
  }

  // The minimum over `rounds` calls. It is not affected by a rank that was descheduled for a
  // moment.
  template <typename Work>
  Expected<double> min_time(Work work, int rounds) {
    double min = std::numeric_limits<double>::infinity();
    for (int round = 0; round < rounds; ++round) {
      const Expected<double> seconds = time(work);
      if (!seconds) return seconds.status();
      min = std::min(min, *seconds);
    }
    return min;
  }

 private:
  Transport& transport_;
  StatisticsReducer& reducer_;
};

}  // namespace nf
