// Runs of values in rows that start anywhere and end anywhere.
#pragma once

#include "cuda/device/values.cuh"

namespace nf::device {

inline constexpr unsigned kRun = 8;  // values a thread takes at once

// Values in a row, in memory or in a message. They start anywhere, so 16-byte accesses do not
// always reach them.
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

// The bits of a NaN in a run of FP16 values, which a device's own conversion does not keep.
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
