// All-reduce by powersgd in device memory: LowRankAllReduce on streams. A DeviceCollective sums the
// factors at full precision. No host synchronisation.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/collective/device_collective.h"
#include "cuda/collective/layout_cache.h"
#include "cuda/collective/low_rank_memory.h"
#include "cuda/collective/low_rank_plan.h"

namespace nf::cuda {

class DeviceLowRank final : public DeviceCollective {
 public:
  // options.codec is powersgd:R. kBadConfig if R is invalid or for a reduce-scatter, and like
  // DeviceAllReduce::check().
  static Status check(const DeviceAllReduceOptions& options, std::uint32_t ranks);
  // Borrows transport and memory. Precondition: the memory has R terms.
  static Expected<std::unique_ptr<DeviceCollective>> create(StreamTransport& transport,
                                                            const DeviceAllReduceOptions& options,
                                                            LowRankMemory& memory);

  Status enqueue(const AllReduceCall& call, std::span<const std::size_t> shards,
                 cudaStream_t stream) override;
  Traffic traffic() const override { return factors_->traffic(); }
  std::size_t memory() const override;
  void forget(std::uint64_t parameter) override { memory_.drop(parameter); }

 private:
  DeviceLowRank(StreamTransport& transport, const DeviceAllReduceOptions& options,
                LowRankMemory& memory, std::unique_ptr<DeviceCollective> factors);

  Status find_states(std::span<const Gradient> gradients, cudaStream_t stream);
  Expected<LowRankPlan*> plan_of(const AllReduceCall& call, cudaStream_t stream);
  Status start_new(const LowRankPlan& plan, cudaStream_t stream);
  Status sum(const LowRankPlan& plan, const AllReduceCall& call, cudaStream_t stream);

  // Constant after construction.
  StreamTransport& transport_;
  const DeviceAllReduceOptions options_;
  LowRankMemory& memory_;
  DeviceAllocator& allocator_;
  const std::unique_ptr<DeviceCollective> factors_;  // sums the factors

  std::vector<LowRankMemory::State*> states_;  // of the current call
  LayoutCache<LowRankPlan> plans_;
  DeviceBuffer factor_buffer_;  // the factors of one call
  DeviceBuffer new_table_;      // table of the matrices without a basis
};

}  // namespace nf::cuda
