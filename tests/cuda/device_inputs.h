// Values for comparing the CPU and the device.
#pragma once

#include <cstddef>
#include <vector>

#include "neuron_fabric/data_type.h"
#include "support/generator.h"

namespace nf::test {

// The distribution of values.
enum class Input {
  kMixture,   // like real gradients; widths differ
  kOffset,    // with a mean worth removing
  kConstant,  // the same value everywhere
  kZeros,
  kTiny,     // denormals, and magnitudes around 2^-100
  kHuge,     // magnitudes around 2^126, and values that round to infinity
  kSteep,    // zeros, and groups up to 2^-125 below others of their super-group
  kHostile,  // NaN, infinities, random bits, lone outliers
};
inline constexpr Input kAllInputs[] = {Input::kMixture, Input::kOffset, Input::kConstant,
                                       Input::kZeros,   Input::kTiny,   Input::kHuge,
                                       Input::kSteep,   Input::kHostile};

// A rank's values of a parameter, as the bytes of their type. Every 256 values have their own
// scale, with kSteep every 16.
std::vector<std::byte> make_values(Generator& random, DataType type, Input input,
                                   std::size_t count);

}  // namespace nf::test
