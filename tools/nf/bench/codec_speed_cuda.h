// How fast the device forms of codecs are, beside a copy of the same values on the same device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nf/bench/codec_speed.h"

namespace nf::cli {

// Whether this build has CUDA.
extern const bool kHasCuda;

// Of the current device, such as "sm_90". Fails where this build or this machine has no CUDA.
Expected<std::string> cuda_architecture();

// Whether the codec has a device form.
bool has_cuda_form(const std::string& spelling);

// Like measure_codec(), with the device's own clock. A rank's `count` values are those of
// `gradients` over and over: making more on the host would take longer than all that is measured.
// The error is that of the first of them.
Expected<std::vector<OpSpeed>> measure_codec_on_cuda(const std::string& spelling,
                                                     const GradientPair& gradients,
                                                     std::uint64_t count, int repeat,
                                                     Progress& progress);

}  // namespace nf::cli
