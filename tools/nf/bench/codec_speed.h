// The speed of codec operations, compared with a copy of the same values.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nf/bench/codec_ops.h"
#include "nf/support/progress.h"
#include "nf/support/timing.h"

namespace nf::cli {

struct OpSpeed {
  std::string codec;
  std::string op;
  std::size_t bytes = 0;
  std::optional<double> bits;
  std::optional<double> vnmse;
  Timing timing;
  double roof_gbps = 0;  // of the copy; counts bytes read and bytes written

  double gbps() const { return static_cast<double>(bytes) / timing.seconds / 1e9; }
  double roof_ratio() const { return roof_gbps > 0 ? gbps() / roof_gbps : 0; }
};

// The row of one operation, without roof_gbps. Fails if its error cannot be computed.
Expected<OpSpeed> speed_of(const std::string& spelling, const CodecOp& op,
                           std::span<const double> samples);

// Times each operation of the codec (CodecOps::ops) `repeat` times in this thread and computes the
// error of its result. The copy is timed before, between and after the operations, and the median
// of its times is the roof of all rows, so that clock changes affect both alike.
Expected<std::vector<OpSpeed>> measure_codec(const std::string& spelling,
                                             const GradientPair& gradients, int repeat,
                                             Progress& progress);

}  // namespace nf::cli
