// The speed of CUDA codecs, compared with a copy of the same values on the same device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nf/bench/codec_speed.h"

namespace nf::cli {

// Whether this build has CUDA.
extern const bool kHasCuda;

// The architecture of the current device, such as "sm_90". Fails without CUDA or without a device.
Expected<std::string> cuda_architecture();

// Whether the codec is implemented in CUDA.
bool has_cuda_codec(const std::string& spelling);

// Like measure_codec(), timed with CUDA events. A rank's `count` values repeat those of
// `gradients`: generating more on the host would take longer than the measurement. The error is
// that of the first repetition.
Expected<std::vector<OpSpeed>> measure_codec_on_cuda(const std::string& spelling,
                                                     const GradientPair& gradients,
                                                     std::uint64_t count, int repeat,
                                                     Progress& progress);

}  // namespace nf::cli
