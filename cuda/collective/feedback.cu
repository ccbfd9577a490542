#include "cuda/collective/feedback.h"

#include <algorithm>

#include "cuda/base/launch.h"
#include "cuda/device/rows.cuh"

namespace nf::cuda {
namespace {

using device::kRun;
using device::Row;

constexpr unsigned kThreads = 256;
constexpr std::uint32_t kChunk = kThreads * kRun;  // values of one parameter, by one thread block
constexpr unsigned kResidentBlocks = 8;            // per multiprocessor

// Several parameters by value, so that a launch needs no table. None of them is empty.
struct Parameters {
  static constexpr std::uint32_t kMax = 64;

  std::uint32_t count = 0;
  std::uint32_t first_block[kMax] = {};  // thread block
  FeedbackParameter of[kMax] = {};
};

// The values of one thread.
struct Share {
  FeedbackParameter parameter;
  std::uint64_t first = 0;  // value of the chunk in the parameter
  std::uint32_t held = 0;   // values in the chunk
  std::uint32_t run = 0;    // the thread's first value in the chunk
  bool is_empty = true;

  __device__ explicit Share(const Parameters& all) {
    std::uint32_t low = 0;
    std::uint32_t high = all.count;
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      if (all.first_block[middle] <= blockIdx.x) {
        low = middle;
      } else {
        high = middle;
      }
    }
    parameter = all.of[low];
    first = std::uint64_t{blockIdx.x - all.first_block[low]} * kChunk;
    const std::uint64_t left = parameter.count - first;
    held = static_cast<std::uint32_t>(left < kChunk ? left : kChunk);
    run = threadIdx.x * kRun;
    is_empty = run >= held;
  }

  template <DataType kType>
  __device__ std::byte* gradient() const {
    return static_cast<std::byte*>(parameter.gradient) + first * size_of(kType);
  }
  // Loads the new residuals.
  __device__ void load_new(std::size_t distance, float (&to)[kRun]) const {
    const auto* from = reinterpret_cast<const std::byte*>(parameter.values + first) + distance;
    device::load_run<DataType::kFloat32>(Row<const void>(from, held), run, to);
  }
};

// Whether no value is NaN or Inf.
__device__ bool are_finite(const float (&values)[kRun]) {
  bool are = true;
#pragma unroll
  for (const float value : values) are &= magnitude_bits(value) < kInfinityBits;
  return are;
}

// Sets is_added if any value of a parameter is neither 0 nor -0. Values past the end load as zeros.
template <DataType kType>
__global__ void __launch_bounds__(kThreads) find_nonzero(__grid_constant__ const Parameters all) {
  const Share share(all);
  if (share.is_empty) return;
  float values[kRun];
  device::load_run<kType>(Row<const void>(share.gradient<kType>(), share.held), share.run, values);
  bool is_used = false;
#pragma unroll
  for (const float value : values) is_used |= magnitude_bits(value) != 0;
  if (is_used) *share.parameter.is_added = 1;
}

template <DataType kType>
__global__ void __launch_bounds__(kThreads)
    add_residual(__grid_constant__ const Parameters all, float loss_scale) {
  const Share share(all);
  if (share.is_empty) return;
  float values[kRun];
  float residual[kRun];
  device::load_run<kType>(Row<const void>(share.gradient<kType>(), share.held), share.run, values);
  device::load_run<DataType::kFloat32>(
      Row<const void>(share.parameter.residual + share.first, share.held), share.run, residual);
  if (*share.parameter.is_added != 0) {
#pragma unroll
    for (unsigned i = 0; i < kRun; ++i) {
      values[i] = __fadd_rn(values[i], __fmul_rn(loss_scale, residual[i]));
    }
  }
  device::store_run<DataType::kFloat32>(
      values, Row<void>(share.parameter.values + share.first, share.held), share.run);
}

__global__ void __launch_bounds__(kThreads)
    move(const DevicePiece* pieces, std::uint32_t count, std::size_t distance, DevicePiece* moved) {
  const std::uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  DevicePiece piece = pieces[i];
  piece.values = static_cast<std::byte*>(piece.values) + distance;
  moved[i] = piece;
}

__global__ void __launch_bounds__(kThreads)
    subtract(const DevicePiece* pieces, std::uint32_t piece_count, const BatchBounds* bounds,
             std::size_t distance, float unscale) {
  if (bounds != nullptr) {
    pieces += bounds->first_piece;
    piece_count = bounds->piece_count;
  }
  if (piece_count == 0) return;
  auto* values = static_cast<const float*>(pieces[0].values);
  const DevicePiece last = pieces[piece_count - 1];
  const auto count =
      static_cast<std::uint64_t>(static_cast<const float*>(last.values) + last.count - values);
  void* decoded = static_cast<std::byte*>(pieces[0].values) + distance;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * kChunk;
  for (std::uint64_t first = std::uint64_t{blockIdx.x} * kChunk + threadIdx.x * kRun; first < count;
       first += stride) {
    const bool is_whole = first + kRun <= count;
    float sum[kRun];
    float new_residual[kRun];
    if (is_whole) {
      device::load_values<DataType::kFloat32>(values, first, sum);
      device::load_values<DataType::kFloat32>(decoded, first, new_residual);
    } else {
      device::load_values_before<DataType::kFloat32>(values, first, count, 0.0f, sum);
      device::load_values_before<DataType::kFloat32>(decoded, first, count, 0.0f, new_residual);
    }
#pragma unroll
    for (unsigned i = 0; i < kRun; ++i) {
      new_residual[i] = __fmul_rn(unscale, __fsub_rn(sum[i], new_residual[i]));
    }
    if (is_whole) {
      device::store_values<DataType::kFloat32>(new_residual, decoded, first);
    } else {
      device::store_values_before<DataType::kFloat32>(new_residual, decoded, first, count);
    }
  }
}

template <DataType kType>
__global__ void __launch_bounds__(kThreads)
    store_result(__grid_constant__ const Parameters all, std::uint32_t* has_nonfinite) {
  const Share share(all);
  if (share.is_empty) return;
  float values[kRun];
  device::load_run<DataType::kFloat32>(
      Row<const void>(share.parameter.values + share.first, share.held), share.run, values);
  device::store_run<kType>(values, Row<void>(share.gradient<kType>(), share.held), share.run);
  // Checks the values after rounding to the gradient's type; values past the end are zeros.
  std::uint32_t words[device::kValueWords<kType, kRun>];
  device::narrow<kType>(values, words);
  device::widen<kType>(words, values);
  if (!are_finite(values)) *has_nonfinite = 1;
}

__global__ void __launch_bounds__(kThreads)
    find_nonfinite_residual(__grid_constant__ const Parameters all, std::size_t distance,
                            std::uint32_t* has_nonfinite) {
  const Share share(all);
  if (share.is_empty) return;
  float values[kRun];
  share.load_new(distance, values);
  if (!are_finite(values)) *has_nonfinite = 1;
}

__global__ void __launch_bounds__(kThreads)
    store_residual(__grid_constant__ const Parameters all, std::size_t distance,
                   const std::uint32_t* has_nonfinite) {
  if (*has_nonfinite != 0) return;
  const Share share(all);
  if (share.is_empty) return;
  float values[kRun];
  share.load_new(distance, values);
  if (*share.parameter.is_added == 0) {
    float residual[kRun];
    device::load_run<DataType::kFloat32>(
        Row<const void>(share.parameter.residual + share.first, share.held), share.run, residual);
#pragma unroll
    for (unsigned i = 0; i < kRun; ++i) values[i] = __fadd_rn(values[i], residual[i]);
  }
  device::store_run<DataType::kFloat32>(
      values, Row<void>(share.parameter.residual + share.first, share.held), share.run);
}

// Calls put(parameters, grid) for successive subsets of the parameters.
template <typename Put>
Status for_each_launch(std::span<const FeedbackParameter> parameters, Put put) {
  Parameters some;
  unsigned grid = 0;
  for (const FeedbackParameter& one : parameters) {
    if (one.count == 0) continue;
    if (some.count == Parameters::kMax) {
      NF_RETURN_IF_ERROR(put(some, grid));
      some.count = 0;
      grid = 0;
    }
    some.first_block[some.count] = grid;
    some.of[some.count++] = one;
    grid += grid_of(one.count, kChunk);
  }
  return put(some, grid);
}

}  // namespace

Status add_residuals(std::span<const FeedbackParameter> parameters, DataType type, float loss_scale,
                     cudaStream_t stream) {
  return for_each_launch(parameters, [&](const Parameters& some, unsigned grid) {
    return with_type(type, [&](auto own) -> Status {
      NF_RETURN_IF_ERROR(
          launch("feedback find_nonzero", find_nonzero<own()>, grid, kThreads, stream, some));
      return launch("feedback add_residuals", add_residual<own()>, grid, kThreads, stream, some,
                    loss_scale);
    });
  });
}

Status offset_pieces(std::span<const DevicePiece> pieces, std::size_t distance, DevicePiece* moved,
                     cudaStream_t stream) {
  return launch("feedback offset_pieces", move, grid_of(pieces.size(), kThreads), kThreads, stream,
                pieces.data(), static_cast<std::uint32_t>(pieces.size()), distance, moved);
}

Status subtract_decoded(const Batch& tile, std::uint64_t max_values, std::size_t distance,
                        float unscale, cudaStream_t stream) {
  const unsigned grid = std::min(grid_of(max_values, kChunk), multiprocessors() * kResidentBlocks);
  return launch("feedback subtract_decoded", subtract, grid, kThreads, stream, tile.pieces,
                tile.piece_count, tile.bounds, distance, unscale);
}

Status store_results(std::span<const FeedbackParameter> parameters, DataType type,
                     std::uint32_t* has_nonfinite, cudaStream_t stream) {
  return for_each_launch(parameters, [&](const Parameters& some, unsigned grid) {
    return with_type(type, [&](auto own) {
      return launch("feedback store_results", store_result<own()>, grid, kThreads, stream, some,
                    has_nonfinite);
    });
  });
}

Status find_nonfinite_residuals(std::span<const FeedbackParameter> parameters, std::size_t distance,
                                std::uint32_t* has_nonfinite, cudaStream_t stream) {
  return for_each_launch(parameters, [&](const Parameters& some, unsigned grid) {
    return launch("feedback find_nonfinite_residuals", find_nonfinite_residual, grid, kThreads,
                  stream, some, distance, has_nonfinite);
  });
}

Status store_residuals(std::span<const FeedbackParameter> parameters, std::size_t distance,
                       const std::uint32_t* has_nonfinite, cudaStream_t stream) {
  return for_each_launch(parameters, [&](const Parameters& some, unsigned grid) {
    return launch("feedback store_residuals", store_residual, grid, kThreads, stream, some,
                  distance, has_nonfinite);
  });
}

}  // namespace nf::cuda
