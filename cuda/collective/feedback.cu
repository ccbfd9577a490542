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
constexpr unsigned kResidentBlocks = 8;            // a multiprocessor holds of these

// Several parameters, by value, so that a launch needs no table. None of them is empty.
struct Parameters {
  static constexpr std::uint32_t kMost = 64;

  std::uint32_t count = 0;
  std::uint32_t first_block[kMost] = {};  // thread block
  FeedbackParameter of[kMost] = {};
};

// What one thread takes.
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
};

// Whether any value of a parameter is neither 0 nor -0. Behind the last value there are zeros.
template <DataType kType>
__global__ void __launch_bounds__(kThreads) find_used(__grid_constant__ const Parameters all) {
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
    take(__grid_constant__ const Parameters all, float loss_scale) {
  const Share share(all);
  if (share.is_empty) return;
  float values[kRun];
  float kept[kRun];
  device::load_run<kType>(Row<const void>(share.gradient<kType>(), share.held), share.run, values);
  device::load_run<DataType::kFloat32>(
      Row<const void>(share.parameter.kept + share.first, share.held), share.run, kept);
  if (*share.parameter.is_added != 0) {
#pragma unroll
    for (unsigned i = 0; i < kRun; ++i) {
      values[i] = __fadd_rn(values[i], __fmul_rn(loss_scale, kept[i]));
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
    float lost[kRun];
    if (is_whole) {
      device::load_values<DataType::kFloat32>(values, first, sum);
      device::load_values<DataType::kFloat32>(decoded, first, lost);
    } else {
      device::load_values_before<DataType::kFloat32>(values, first, count, 0.0f, sum);
      device::load_values_before<DataType::kFloat32>(decoded, first, count, 0.0f, lost);
    }
#pragma unroll
    for (unsigned i = 0; i < kRun; ++i) {
      lost[i] = __fmul_rn(unscale, __fsub_rn(sum[i], lost[i]));
    }
    if (is_whole) {
      device::store_values<DataType::kFloat32>(lost, decoded, first);
    } else {
      device::store_values_before<DataType::kFloat32>(lost, decoded, first, count);
    }
  }
}

template <DataType kType>
__global__ void __launch_bounds__(kThreads)
    give(__grid_constant__ const Parameters all, std::uint32_t* is_unsound) {
  const Share share(all);
  if (share.is_empty) return;
  float values[kRun];
  device::load_run<DataType::kFloat32>(
      Row<const void>(share.parameter.values + share.first, share.held), share.run, values);
  device::store_run<kType>(values, Row<void>(share.gradient<kType>(), share.held), share.run);
  // As the gradient's type has them; behind the last value there are zeros.
  std::uint32_t words[device::kValueWords<kType, kRun>];
  device::narrow<kType>(values, words);
  device::widen<kType>(words, values);
  bool is_finite = true;
#pragma unroll
  for (const float value : values) is_finite &= magnitude_bits(value) < kInfinityBits;
  if (!is_finite) *is_unsound = 1;
}

__global__ void __launch_bounds__(kThreads)
    keep(__grid_constant__ const Parameters all, std::size_t distance,
         const std::uint32_t* is_unsound) {
  if (*is_unsound != 0) return;
  const Share share(all);
  if (share.is_empty) return;
  const auto* lost =
      reinterpret_cast<const std::byte*>(share.parameter.values + share.first) + distance;
  float values[kRun];
  device::load_run<DataType::kFloat32>(Row<const void>(lost, share.held), share.run, values);
  if (*share.parameter.is_added == 0) {
    float kept[kRun];
    device::load_run<DataType::kFloat32>(
        Row<const void>(share.parameter.kept + share.first, share.held), share.run, kept);
#pragma unroll
    for (unsigned i = 0; i < kRun; ++i) values[i] = __fadd_rn(values[i], kept[i]);
  }
  device::store_run<DataType::kFloat32>(
      values, Row<void>(share.parameter.kept + share.first, share.held), share.run);
}

// Calls put(some of them, grid) until all have had their turn.
template <typename Put>
Status for_each_launch(std::span<const FeedbackParameter> parameters, Put put) {
  Parameters some;
  unsigned grid = 0;
  for (const FeedbackParameter& one : parameters) {
    if (one.count == 0) continue;
    if (some.count == Parameters::kMost) {
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

Status take_values(std::span<const FeedbackParameter> parameters, DataType type, float loss_scale,
                   cudaStream_t stream) {
  return for_each_launch(parameters, [&](const Parameters& some, unsigned grid) {
    return with_type(type, [&](auto own) -> Status {
      NF_RETURN_IF_ERROR(
          launch("gradients that are not zero", find_used<own()>, grid, kThreads, stream, some));
      return launch("values with what was lost of them", take<own()>, grid, kThreads, stream, some,
                    loss_scale);
    });
  });
}

Status move_pieces(std::span<const DevicePiece> pieces, std::size_t distance, DevicePiece* moved,
                   cudaStream_t stream) {
  return launch("table of what is lost", move, grid_of(pieces.size(), kThreads), kThreads, stream,
                pieces.data(), static_cast<std::uint32_t>(pieces.size()), distance, moved);
}

Status subtract_decoded(const Batch& tile, std::uint64_t most_values, std::size_t distance,
                        float unscale, cudaStream_t stream) {
  const unsigned grid = std::min(grid_of(most_values, kChunk), multiprocessors() * kResidentBlocks);
  return launch("loss of a message", subtract, grid, kThreads, stream, tile.pieces,
                tile.piece_count, tile.bounds, distance, unscale);
}

Status give_values(std::span<const FeedbackParameter> parameters, DataType type,
                   std::uint32_t* is_unsound, cudaStream_t stream) {
  return for_each_launch(parameters, [&](const Parameters& some, unsigned grid) {
    return with_type(type, [&](auto own) {
      return launch("sums of values", give<own()>, grid, kThreads, stream, some, is_unsound);
    });
  });
}

Status keep_values(std::span<const FeedbackParameter> parameters, std::size_t distance,
                   const std::uint32_t* is_unsound, cudaStream_t stream) {
  return for_each_launch(parameters, [&](const Parameters& some, unsigned grid) {
    return launch("keeping of what was lost", keep, grid, kThreads, stream, some, distance,
                  is_unsound);
  });
}

}  // namespace nf::cuda
