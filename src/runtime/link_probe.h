// Measures, once and in well under a second, what the cost model has to know of this job: the
// link, the engine and the codecs, with all ranks at it at the same time as in a training step.
#pragma once

#include <string>

#include "neuron_fabric/fabric.h"
#include "runtime/bucket_path.h"
#include "runtime/cost_model.h"
#include "runtime/statistics_reducer.h"

namespace nf {

// All figures are those of the slowest rank, the same on every rank. All ranks call at the same
// time.
class LinkProbe {
 public:
  // Borrows all three.
  LinkProbe(Transport& transport, Probe& probe, StatisticsReducer& reducer)
      : transport_(transport), probe_(probe), statistics_reducer_(reducer) {}

  Expected<LinkFigures> measure_link();
  // One such all-reduce, by its codec, less what the link alone would take for the bytes it sends.
  // What groups send inside belongs to the codec: their link is another.
  Expected<CodecFigures> measure_codec(const AllReduceOptions& sum, const LinkFigures& link);

 private:
  // Seconds that `work` takes on the slowest rank.
  template <typename Work>
  Expected<double> time(Work work);
  // The least of so many times.
  template <typename Work>
  Expected<double> least_time(Work work, int rounds);

  Transport& transport_;  // for its clock
  Probe& probe_;
  StatisticsReducer& statistics_reducer_;
};

}  // namespace nf
