// The pieces of a plan in device memory. The values of their gradients may move from call to call:
// a kernel then replaces the addresses in the table, in the order of the stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/codec/device_codec.h"
#include "cuda/codec/device_tables.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

// Where the values of a piece are.
struct PieceSource {
  std::uint32_t gradient = 0;  // index
  std::uint64_t offset = 0;    // bytes from its first value
};

class PieceTable {
 public:
  explicit PieceTable(std::span<const Gradient> gradients);

  // Appends a piece of a gradient. Sets its values.
  void add(DevicePiece piece, const PieceSource& source);
  // Appends all pieces to the tables to upload; until that is done, the table must not move.
  void add_to(DeviceTables& tables);

  std::size_t size() const { return pieces_.size(); }
  // The pieces in host memory. Their values are those of the gradients at creation.
  std::span<const DevicePiece> pieces() const { return pieces_; }
  const PieceSource& source(std::size_t piece) const { return sources_[piece]; }
  // A piece in device memory, once it is uploaded.
  const DevicePiece* on_device(std::size_t piece) const { return on_device_ + piece; }

  // Work that follows on `stream` uses the values of these gradients. Precondition: they are the
  // gradients of the table, possibly at other addresses.
  Status move_to(std::span<const Gradient> gradients, cudaStream_t stream);

 private:
  void set_addresses(std::span<const Gradient> gradients);

  std::vector<std::byte*> addresses_;  // by gradient; empty if unknown, after an error
  std::vector<DevicePiece> pieces_;
  std::vector<PieceSource> sources_;
  DevicePiece* on_device_ = nullptr;
  const PieceSource* sources_on_device_ = nullptr;
};

}  // namespace nf::cuda
