// Loads and stores of runs in rows of any alignment and length.
#pragma once

#include "cuda/device/values.cuh"

namespace nf::device {

inline constexpr unsigned kRun = 8;  // values per thread and access

// Consecutive values, in a gradient or in a message. Only aligned rows allow 16-byte accesses.
template <typename Void>
struct Row {
  Void* values;
  std::uint32_t held;
  bool is_aligned;

  __device__ Row(Void* data, std::uint32_t count)
      : values(data), held(count), is_aligned(reinterpret_cast<std::uintptr_t>(data) % 16 == 0) {}
};

template <DataType kType>
__device__ void load_run(const Row<const void>& row, std::uint32_t first, float (&to)[kRun]) {
  if (row.is_aligned && first + kRun <= row.held) {
    load_values<kType>(row.values, first, to);
  } else {
    load_values_before<kType>(row.values, first, row.held, 0.0f, to);
  }
}

// Restores the bits of NaNs in a run of FP16 values, which the hardware conversion does not keep.
__device__ inline void keep_nan_bits(const Row<const void>& row, std::uint32_t first,
                                     float (&run)[kRun]) {
#pragma unroll
  for (unsigned i = 0; i < kRun; ++i) {
    if (run[i] == run[i] || first + i >= row.held) continue;
    run[i] = float16_to_float(static_cast<const std::uint16_t*>(row.values)[first + i]);
  }
}

template <DataType kType>
__device__ void store_run(const float (&from)[kRun], const Row<void>& row, std::uint32_t first) {
  if (row.is_aligned && first + kRun <= row.held) {
    store_values<kType>(from, row.values, first);
  } else {
    store_values_before<kType>(from, row.values, first, row.held);
  }
}

}  // namespace nf::device
