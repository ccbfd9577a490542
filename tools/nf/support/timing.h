// Timing of work that is repeated in one thread.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf::cli {

using Work = std::function<Status()>;

// Returns `repeat` samples of the seconds per call, after two warm-up calls. Short work is called
// several times per sample, so that the overhead of the clock is negligible.
Expected<std::vector<double>> sample_seconds(const Work& work, int repeat);

struct Timing {
  double seconds = 0;  // the median
  double spread = 0;   // half the distance between the quartiles
};

// Interpolates between the two nearest samples. Precondition: `sorted` is sorted and not empty.
double quantile(std::span<const double> sorted, double q);

// Precondition: `samples` is not empty.
Timing summarise(std::span<const double> samples);

}  // namespace nf::cli
