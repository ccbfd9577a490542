// The tables of powersgd for calls with the same LayoutKey: the memory of the factors, and the
// parts that thread blocks process. Only the addresses of the gradients may change from call to
// call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/base/device_memory.h"
#include "cuda/collective/layout_key.h"
#include "cuda/collective/low_rank.h"
#include "cuda/collective/low_rank_memory.h"
#include "cuda/collective/piece_table.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

class LowRankPlan {
 public:
  struct Request {
    std::span<const Gradient> gradients;
    std::span<LowRankMemory::State* const> states;  // null if sent unfactored
    std::byte* factors = nullptr;                   // memory of factor_bytes()
    std::uint32_t terms = 0;
    std::uint64_t seed = 0;
  };

  // Bytes of memory for the factors. All plans of a stream may share it: its contents are not used
  // after a call.
  static std::size_t factor_bytes(const Request& request);

  // Fails if the gradients have different types, and with kOutOfMemory.
  static Expected<std::unique_ptr<LowRankPlan>> create(const Request& request,
                                                       DeviceAllocator& allocator,
                                                       cudaStream_t stream);

  const LayoutKey& key() const { return key_; }
  // Whether the factors and states have not moved.
  bool is_current(const Request& request) const;
  // Work that follows on `stream` uses the values of these gradients, which have the same key.
  Status move_to(std::span<const Gradient> gradients, cudaStream_t stream);

  const LowRankTables& tables() const { return tables_; }
  // One per non-null state, in the same order.
  std::span<const LowRankMatrix> matrices() const { return matrices_; }
  // The values to reduce over all ranks: first factors with unfactored values, then second factors.
  std::span<const Gradient> first() const { return first_; }
  std::span<const Gradient> second() const { return second_; }

  // Device memory in bytes.
  std::size_t memory() const { return table_memory_.size(); }

 private:
  explicit LowRankPlan(DeviceAllocator& allocator) : table_memory_(allocator) {}

  void allocate(const Request& request);
  // Appends the pieces of a gradient that is sent unfactored.
  void add_plain(std::size_t gradient, float* wide);
  // Sets the addresses of the gradients' values in the tables in host memory.
  void set_values(std::span<const Gradient> gradients);
  Status upload(cudaStream_t stream);

  LayoutKey key_;
  std::vector<Gradient> gradients_;  // of the last call
  std::byte* factors_ = nullptr;
  std::vector<LowRankMatrix> matrices_;
  std::vector<PlainPiece> plain_;
  std::vector<std::size_t> matrix_sources_;  // the gradient of each matrix
  std::vector<PieceSource> plain_sources_;
  std::vector<Gradient> first_;
  std::vector<Gradient> second_;
  DeviceBuffer table_memory_;
  LowRankMatrix* matrix_table_ = nullptr;
  PlainPiece* plain_table_ = nullptr;
  LowRankTables tables_;
};

}  // namespace nf::cuda
