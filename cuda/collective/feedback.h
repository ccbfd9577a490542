// The kernels of error feedback, bit-identical to collective/residuals.h and
// TileCodec::keep_residual().
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/codec/device_codec.h"
#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"

namespace nf::cuda {

// One parameter of a call. New residuals are at one distance from the values, the same for all
// parameters of the call.
struct FeedbackParameter {
  void* gradient = nullptr;  // of the call's type, at its alignment
  float* values = nullptr;   // 16-byte aligned, like the residual
  float* residual = nullptr;
  std::uint32_t* is_added = nullptr;  // whether this call adds the residual; initially 0
  std::uint64_t count = 0;
};

// values = gradient + loss_scale * residual, rounded twice. If the gradient of a parameter is all
// zero, values = gradient. Sets *is_added accordingly.
Status add_residuals(std::span<const FeedbackParameter> parameters, DataType type, float loss_scale,
                     cudaStream_t stream);

// Copies the pieces, with values `distance` bytes further on.
Status offset_pieces(std::span<const DevicePiece> pieces, std::size_t distance, DevicePiece* moved,
                     cudaStream_t stream);

// Replaces the decoded message of a tile, `distance` bytes after the values, by
// unscale * (values - decoded). Precondition: the tile's pieces are consecutive, in order, possibly
// with gaps, whose contents do not matter; at most `max_values` values, gaps included.
Status subtract_decoded(const Batch& tile, std::uint64_t max_values, std::size_t distance,
                        float unscale, cudaStream_t stream);

// gradient = values, rounded like decoding. Sets *has_nonfinite if a rounded value is NaN or Inf.
Status store_results(std::span<const FeedbackParameter> parameters, DataType type,
                     std::uint32_t* has_nonfinite, cudaStream_t stream);

// Sets *has_nonfinite if a new residual, `distance` bytes after the values, is NaN or Inf.
Status find_nonfinite_residuals(std::span<const FeedbackParameter> parameters, std::size_t distance,
                                std::uint32_t* has_nonfinite, cudaStream_t stream);

// Unless *has_nonfinite: residual = new residual, `distance` bytes after the values, plus the old
// residual if it was not added in this call.
Status store_residuals(std::span<const FeedbackParameter> parameters, std::size_t distance,
                       const std::uint32_t* has_nonfinite, cudaStream_t stream);

}  // namespace nf::cuda
