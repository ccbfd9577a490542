// Values for the tests of the sparse codecs.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <vector>

#include "support/typed_values.h"

namespace nf::test {

inline constexpr std::size_t kBlockValues = 32;

// Blocks of equal values.
inline TypedValues blocks_of(std::initializer_list<float> values) {
  std::vector<float> all;
  for (const float value : values) all.insert(all.end(), kBlockValues, value);
  return {DataType::kFloat32, all};
}

}  // namespace nf::test
