// Measures, once and in well under a second, what the cost model has to know of this job: the
// link, the engine and the codecs, with all ranks at it at the same time as in a training step.
#pragma once

#include <map>
#include <span>
#include <string>

#include "neuron_fabric/fabric.h"
#include "runtime/cost_model.h"
#include "runtime/exchange.h"

namespace nf {

// All figures are those of the slowest rank, the same on every rank. All ranks call at the same
// time.
class LinkProbe {
 public:
  // Borrows all three.
  LinkProbe(Transport& transport, DenseSum& engine, Exchange& exchange, Duration timeout);

  Expected<LinkFigures> measure_link();
  // One all-reduce of random values by `sum`, less what the link alone would take for the bytes it
  // sent.
  Expected<CodecFigures> measure_codec(AllReduce& sum, const std::string& route, Topology topology,
                                       const LinkFigures& link);

 private:
  // Seconds that `work` takes on the slowest rank.
  template <typename Work>
  Expected<double> time(Work work);
  // Everybody sends so many bytes to the next rank and receives as many from the one before.
  Status pass_on(std::size_t bytes);

  Transport& transport_;
  DenseSum& engine_;
  Exchange& exchange_;
  const Duration timeout_;
  std::vector<float> sent_;
  std::vector<float> received_;
};

}  // namespace nf
