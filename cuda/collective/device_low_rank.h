// All-reduce by powersgd in device memory: LowRankAllReduce on streams. The sums of the factors are
// those of a DeviceCollective at full precision; nobody waits for the host in between.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/collective/device_collective.h"
#include "cuda/collective/low_rank_memory.h"
#include "cuda/collective/low_rank_plan.h"

namespace nf::cuda {

class DeviceLowRank final : public DeviceCollective {
 public:
  // options.codec is powersgd:R. kBadConfig where that is none, and as DeviceAllReduce::check().
  static Status check(const DeviceAllReduceOptions& options, std::uint32_t ranks);
  // Borrows both. Precondition: the memory is of R terms.
  static Expected<std::unique_ptr<DeviceCollective>> create(StreamTransport& transport,
                                                            const DeviceAllReduceOptions& options,
                                                            LowRankMemory& memory);

  Status enqueue(const AllReduceCall& call, cudaStream_t stream) override;
  Traffic traffic() const override { return factors_->traffic(); }
  std::size_t memory() const override;
  void forget(std::uint64_t parameter) override { memory_.drop(parameter); }

 private:
  DeviceLowRank(StreamTransport& transport, const DeviceAllReduceOptions& options,
                LowRankMemory& memory, std::unique_ptr<DeviceCollective> factors);

  Status find_states(std::span<const Gradient> gradients, cudaStream_t stream);
  Expected<LowRankPlan*> plan_of(std::span<const Gradient> gradients, cudaStream_t stream);
  Status start_new(const LowRankPlan& plan, cudaStream_t stream);
  Status sum(const LowRankPlan& plan, const AllReduceCall& call, cudaStream_t stream);

  // Constant after construction.
  StreamTransport& transport_;
  const DeviceAllReduceOptions options_;
  LowRankMemory& memory_;
  DeviceAllocator& allocator_;
  const std::unique_ptr<DeviceCollective> factors_;  // sums them, at full precision

  std::vector<LowRankMemory::State*> states_;  // of the call under way
  std::vector<std::unique_ptr<LowRankPlan>> plans_;
  DeviceBuffer room_;  // for the factors of one call
  DeviceBuffer new_;   // table of the matrices that have no basis yet
};

}  // namespace nf::cuda
