// Conversion of values to and from FP32, for kernels that process FP32 only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/isa.h"

namespace nf {

// Widening is exact. Narrowing rounds as in base/float16.h. `bytes` may have any alignment.
struct ConvertKernels {
  void (*bfloat16_to_float)(const std::byte* bytes, std::size_t count, float* values);
  void (*float16_to_float)(const std::byte* bytes, std::size_t count, float* values);
  void (*float_to_bfloat16)(const float* values, std::size_t count, std::byte* bytes);
  void (*float_to_float16)(const float* values, std::size_t count, std::byte* bytes);
  // values[i] += bytes[i]
  void (*add_float32)(const std::byte* bytes, std::size_t count, float* values);
  void (*add_bfloat16)(const std::byte* bytes, std::size_t count, float* values);
  void (*add_float16)(const std::byte* bytes, std::size_t count, float* values);
  // out[i] = values[i] + bytes[i], rounded to the type of `bytes`.
  void (*sum_float32)(const std::byte* bytes, const float* values, std::size_t count,
                      std::byte* out);
  void (*sum_bfloat16)(const std::byte* bytes, const float* values, std::size_t count,
                       std::byte* out);
  void (*sum_float16)(const std::byte* bytes, const float* values, std::size_t count,
                      std::byte* out);
};

const ConvertKernels& convert_kernels(Isa isa);

}  // namespace nf
