// How fast the operations of a codec are, beside a copy of the same values.
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
  double roof_gbps = 0;  // of the copy: bytes read and written

  double gbps() const { return static_cast<double>(bytes) / timing.seconds / 1e9; }
  double roof_ratio() const { return roof_gbps > 0 ? gbps() / roof_gbps : 0; }
};

// One operation's row, but for the roof. Fails where its error cannot be had.
Expected<OpSpeed> speed_of(const std::string& spelling, const CodecOp& op,
                           std::span<const double> samples);

// One element for each of the codec's operations (CodecOps::ops), timed `repeat` times in this
// thread, with the error of its result. The copy is timed before, between and after them, and the
// median of those times is the roof of them all: a machine that changes its speed changes both.
Expected<std::vector<OpSpeed>> measure_codec(const std::string& spelling,
                                             const GradientPair& gradients, int repeat,
                                             Progress& progress);

}  // namespace nf::cli
