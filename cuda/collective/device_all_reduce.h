// AllReduce and ReduceScatter with a codec on device memory and CUDA streams, like CodecAllReduce.
// Schedules, plans and bytes are those of the CPU. All work is enqueued at once, without host
// synchronisation; while one tile is exchanged, the kernels of another run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collective/schedule.h"
#include "collective/shard_borders.h"
#include "cuda/collective/device_collective.h"
#include "cuda/collective/device_executor.h"
#include "cuda/collective/device_feedback.h"
#include "cuda/collective/device_layout.h"
#include "cuda/collective/device_rounds.h"
#include "cuda/collective/device_statistics.h"
#include "cuda/collective/layout_cache.h"
#include "cuda/transport/stream_transport.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

class DeviceAllReduce final : public DeviceCollective {
 public:
  // kBadConfig for an invalid codec, or a topology that the collective does not support;
  // kUnsupported for a codec without a CUDA implementation, and for the hierarchical topology (see
  // DeviceHierarchy).
  static Status check(const DeviceAllReduceOptions& options, std::uint32_t ranks);
  // Keeps references to the transport, the wire and the memory. A codec that keeps residuals needs a memory.
  // Fails like check().
  static Expected<std::unique_ptr<DeviceAllReduce>> create(StreamTransport& transport,
                                                           const DeviceAllReduceOptions& options,
                                                           ResidualMemory* memory = nullptr);

  using DeviceCollective::enqueue;
  Status enqueue(const AllReduceCall& call, std::span<const std::size_t> shards,
                 cudaStream_t stream) override;
  // An all-reduce of parts of parameters: `firsts` are the first elements of the parts, multiples
  // of granule(). Precondition: the codec keeps no residuals.
  Status enqueue_parts(const AllReduceCall& call, std::span<const std::uint64_t> firsts,
                       cudaStream_t stream);
  std::size_t granule() const { return codec_->granule(); }
  // The number of layouts held: one per LayoutKey.
  std::size_t layouts() const { return layouts_.size(); }
  Traffic traffic() const override;
  std::size_t memory() const override;
  void forget(std::uint64_t parameter) override {
    if (feedback_ != nullptr) feedback_->forget(parameter);
  }

 private:
  DeviceAllReduce(StreamTransport& transport, const DeviceAllReduceOptions& options,
                  std::unique_ptr<Codec> codec, ResidualMemory* memory);

  bool scatters() const { return options_.collective == Collective::kReduceScatter; }
  bool merges() const { return merges_messages(codec_->kind()); }

  Status prepare();
  Status check_call(const AllReduceCall& call, std::span<const std::size_t> shards);
  // Sums the gradients of an agreed call in place.
  Status sum(const AllReduceCall& call, std::span<const std::uint64_t> firsts, cudaStream_t stream);
  Status sum_with_feedback(const AllReduceCall& call, cudaStream_t stream);
  Expected<DeviceLayout*> layout_of(const AllReduceCall& call,
                                    std::span<const std::uint64_t> firsts, cudaStream_t stream);

  // Constant once prepared.
  StreamTransport& transport_;
  const DeviceAllReduceOptions options_;
  const std::unique_ptr<Codec> codec_;
  DeviceAllocator& allocator_;
  const std::unique_ptr<Wire> own_wire_;  // null if the wire is shared
  const SumPlan hop_plan_;  // only for its stages
  HopCodecs hop_codecs_;
  const Schedule schedule_;
  const DeviceRounds rounds_;
  const std::vector<std::uint32_t> contributions_;  // of the messages
  const bool adds_one_by_one_;                      // for some chunk, messages are added one by one
  const std::unique_ptr<DeviceFeedback> feedback_;  // null if the codec keeps no residuals

  // State of the current call: the gradients whose sums this rank gets, and in a reduce-scatter the
  // first gradient of each shard.
  GradientRange results_;
  ShardBorders borders_;

  LayoutCache<DeviceLayout> layouts_;
  DeviceStatistics statistics_;
  DeviceExecutor executor_;  // destroyed first: waits for exchanges, which may use the others
};

}  // namespace nf::cuda
