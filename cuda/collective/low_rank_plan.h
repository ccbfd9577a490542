// The tables of powersgd for one set of gradients: where each one's factors lie, and what thread
// blocks take of it. Made from shapes alone.
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
    std::span<LowRankMemory::State* const> states;  // of them; null for what travels as it is
    std::byte* room = nullptr;                      // for factors: room_bytes() of it
    std::uint32_t terms = 0;
    std::uint64_t seed = 0;
  };

  // Of gradients as `states` say. All plans of a stream may share it: nothing in it outlives a
  // call.
  static std::size_t room_bytes(const Request& request);

  // Fails where gradients are of several types, and with kOutOfMemory.
  static Expected<std::unique_ptr<LowRankPlan>> create(const Request& request,
                                                       DeviceAllocator& allocator,
                                                       cudaStream_t stream);

  // Whether these are its gradients; and whether all else still is where it was.
  bool is_of(std::span<const Gradient> gradients) const;
  bool is_current(const Request& request) const;

  const LowRankTables& tables() const { return tables_; }
  // By state that is not null, in their order.
  std::span<const LowRankMatrix> matrices() const { return matrices_; }
  // What is to be summed over all ranks: first factors with what travels as it is, then second.
  std::span<const Gradient> first() const { return first_; }
  std::span<const Gradient> second() const { return second_; }

  // Device memory held.
  std::size_t memory() const { return room_.size(); }

 private:
  explicit LowRankPlan(DeviceAllocator& allocator) : room_(allocator) {}

  void place(const Request& request);
  Status upload(cudaStream_t stream);

  std::vector<Gradient> gradients_;
  std::byte* factors_ = nullptr;
  std::vector<LowRankMatrix> matrices_;
  std::vector<PlainPiece> plain_;
  std::vector<Gradient> first_;
  std::vector<Gradient> second_;
  DeviceBuffer room_;
  LowRankTables tables_;
};

}  // namespace nf::cuda
