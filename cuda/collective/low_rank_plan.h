// The tables of powersgd for one set of gradients: the memory of the factors, and the parts that
// thread blocks process. They depend on shapes only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/base/device_memory.h"
#include "cuda/collective/low_rank.h"
#include "cuda/collective/low_rank_memory.h"
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

  // Whether these are its gradients; and whether the factors and states have not moved.
  bool is_of(std::span<const Gradient> gradients) const;
  bool is_current(const Request& request) const;

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
  Status upload(cudaStream_t stream);

  std::vector<Gradient> gradients_;
  std::byte* factors_ = nullptr;
  std::vector<LowRankMatrix> matrices_;
  std::vector<PlainPiece> plain_;
  std::vector<Gradient> first_;
  std::vector<Gradient> second_;
  DeviceBuffer table_memory_;
  LowRankTables tables_;
};

}  // namespace nf::cuda
