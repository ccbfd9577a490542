// Values of any type as FP32 and back, for kernels that see FP32 only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/isa.h"

namespace nf {

// Widening is exact; narrowing rounds as base/float16.h says. Any alignment of `bytes`.
struct ConvertKernels {
  void (*bfloat16_to_float)(const std::byte* bytes, std::size_t count, float* values);
  void (*float16_to_float)(const std::byte* bytes, std::size_t count, float* values);
  void (*float_to_bfloat16)(const float* values, std::size_t count, std::byte* bytes);
  void (*float_to_float16)(const float* values, std::size_t count, std::byte* bytes);
  // values[i] += what the bytes hold.
  void (*add_float32)(const std::byte* bytes, std::size_t count, float* values);
  void (*add_bfloat16)(const std::byte* bytes, std::size_t count, float* values);
  void (*add_float16)(const std::byte* bytes, std::size_t count, float* values);
  // out[i] = values[i] + what the bytes hold, rounded to the bytes' own type.
  void (*sum_float32)(const std::byte* bytes, const float* values, std::size_t count,
                      std::byte* out);
  void (*sum_bfloat16)(const std::byte* bytes, const float* values, std::size_t count,
                       std::byte* out);
  void (*sum_float16)(const std::byte* bytes, const float* values, std::size_t count,
                      std::byte* out);
};

const ConvertKernels& convert_kernels(Isa isa);

}  // namespace nf
