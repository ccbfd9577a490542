// Times of a piece of work that is repeated in one thread.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf::cli {

using Work = std::function<Status()>;

// The seconds one call took, `repeat` times, after two calls to warm up. Short work is called
// several times a sample, so that the clock's own cost stays out of it.
Expected<std::vector<double>> sample_seconds(const Work& work, int repeat);

struct Timing {
  double seconds = 0;  // the median
  double spread = 0;   // half the distance between the quartiles
};

// Between the two nearest samples. Precondition: there are samples, sorted.
double quantile(std::span<const double> sorted, double q);

// Precondition: there are samples.
Timing summarise(std::span<const double> samples);

}  // namespace nf::cli
