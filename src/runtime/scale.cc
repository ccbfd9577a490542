#include "runtime/scale.h"

#include <cstdint>

#include "base/float16.h"

namespace nf {
namespace {

template <float (*widen)(std::uint16_t), std::uint16_t (*narrow)(float)>
void scale_16bit(std::uint16_t* values, std::size_t count, float factor) {
  for (std::size_t i = 0; i < count; ++i) values[i] = narrow(widen(values[i]) * factor);
}

}  // namespace

void scale(Values values, float factor) {
  if (factor == 1.0f) return;
  switch (values.type) {
    case DataType::kFloat32: {
      auto* floats = static_cast<float*>(values.data);
      for (std::size_t i = 0; i < values.count; ++i) floats[i] *= factor;
      return;
    }
    case DataType::kBfloat16:
      return scale_16bit<bfloat16_to_float, float_to_bfloat16>(
          static_cast<std::uint16_t*>(values.data), values.count, factor);
    case DataType::kFloat16:
      return scale_16bit<float16_to_float, float_to_float16>(
          static_cast<std::uint16_t*>(values.data), values.count, factor);
  }
}

}  // namespace nf
