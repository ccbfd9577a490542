// The passes of error feedback over values in device memory, with the bits of
// collective/residuals.h and TileCodec::keep_residual().
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/codec/device_codec.h"
#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"

namespace nf::cuda {

// One parameter of a call. What is lost lies at one distance from all values of the call.
struct FeedbackParameter {
  void* gradient = nullptr;  // of the call's type, at its alignment
  float* values = nullptr;   // aligned to 16 bytes, as is all that follows
  float* kept = nullptr;
  std::uint32_t* is_added = nullptr;  // whether what is kept is added in this call; 0 at first
  std::uint64_t count = 0;
};

// values = gradient + loss_scale * kept, rounded twice; of a parameter whose gradient is zero
// everywhere, values = gradient. Sets *is_added accordingly.
Status take_values(std::span<const FeedbackParameter> parameters, DataType type, float loss_scale,
                   cudaStream_t stream);

// The same pieces with values `distance` bytes further on.
Status move_pieces(std::span<const DevicePiece> pieces, std::size_t distance, DevicePiece* moved,
                   cudaStream_t stream);

// For the values of a tile, which `distance` bytes further on have what their message decodes to:
// there, unscale * (values - decoded). Precondition: its pieces lie in a row, in order, with gaps
// at most; what is in those does not matter. There are at most `most_values`, gaps included.
Status subtract_decoded(const Batch& tile, std::uint64_t most_values, std::size_t distance,
                        float unscale, cudaStream_t stream);

// gradient = values, rounded as decoding does. Sets *is_unsound where one is not finite then.
Status give_values(std::span<const FeedbackParameter> parameters, DataType type,
                   std::uint32_t* is_unsound, cudaStream_t stream);

// kept = what lies `distance` bytes behind values, unless *is_unsound; added to what is kept if
// that is not among the values.
Status keep_values(std::span<const FeedbackParameter> parameters, std::size_t distance,
                   const std::uint32_t* is_unsound, cudaStream_t stream);

}  // namespace nf::cuda
