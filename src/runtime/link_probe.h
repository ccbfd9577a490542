// Measures the inputs of the cost model once, in well under a second: the link, the engine and the
// codecs. All ranks work at the same time, as in a training step.
#pragma once

#include <cstdint>

#include "neuron_fabric/fabric.h"
#include "runtime/bucket_path.h"
#include "runtime/cost_model.h"
#include "runtime/slowest_rank.h"

namespace nf {

// All figures are those of the slowest rank, and the same on every rank. All ranks call it at the
// same time.
class LinkProbe {
 public:
  // Borrows all arguments but the last.
  LinkProbe(Transport& transport, Probe& probe, StatisticsReducer& reducer,
            Collective collective = Collective::kAllReduce)
      : clock_(transport, reducer),
        probe_(probe),
        ranks_(transport.ranks()),
        collective_(collective) {}

  Expected<LinkFigures> measure_link();
  // The time of one collective, less the time of the link for the bytes sent. Traffic inside host
  // groups counts as codec time, because it uses another link.
  Expected<CodecFigures> measure_codec(const AllReduceOptions& sum, const LinkFigures& link);

 private:
  SlowestRank clock_;
  Probe& probe_;
  const std::uint32_t ranks_;
  const Collective collective_;
};

}  // namespace nf
