// One codec's part of an exchange on a device (collective/device_exchange.h), like ExchangePart:
// its values and their layouts, statistics, messages and residuals. Keeps its buffers and layouts
// from call to call.
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
#include "cuda/collective/device_feedback.h"
#include "cuda/collective/device_layout.h"
#include "cuda/collective/device_rounds.h"
#include "cuda/collective/device_statistics.h"
#include "cuda/collective/layout_cache.h"
#include "cuda/collective/tile_messages.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

class DeviceExchangePart {
 public:
  // kBadConfig for an invalid codec, or a topology that the collective does not support;
  // kUnsupported for a codec without a CUDA implementation, and for the hierarchical topology (see
  // DeviceHierarchy).
  static Status check(const DeviceAllReduceOptions& options, std::uint32_t ranks);
  // For rank `rank` of `ranks`; options.wire is not used. Keeps a reference to the memory, which a
  // codec that keeps residuals needs. Fails like check().
  static Expected<std::unique_ptr<DeviceExchangePart>> create(const DeviceAllReduceOptions& options,
                                                              std::uint32_t rank,
                                                              std::uint32_t ranks,
                                                              ResidualMemory* memory);

  std::size_t granule() const { return codec_->granule(); }
  // The number of layouts held: one per LayoutKey.
  std::size_t layouts() const { return layouts_.size(); }
  // The bytes of all calls.
  Traffic traffic() const;
  // As in DeviceCollective.
  std::size_t memory() const;
  void forget(std::uint64_t parameter) {
    if (feedback_ != nullptr) feedback_->forget(parameter);
  }

 private:
  friend class DeviceExchange;

  DeviceExchangePart(const DeviceAllReduceOptions& options, std::uint32_t rank, std::uint32_t ranks,
                     std::unique_ptr<Codec> codec, ResidualMemory* memory);

  bool scatters() const { return options_.collective == Collective::kReduceScatter; }
  bool merges() const { return merges_messages(codec_->kind()); }

  // The steps of a call, in this order.

  // `shards` and `firsts` as in DeviceExchange::Input. Borrows the gradients and the firsts.
  Status set_call(const AllReduceCall& call, std::span<const std::size_t> shards,
                  std::span<const std::uint64_t> firsts);
  std::span<const Gradient> gradients() const { return call_.gradients; }
  // Makes the copies of error feedback, finds the layout, and allocates all memory of the call.
  // Fails with kOutOfMemory.
  Status reserve(cudaStream_t stream);
  std::size_t rounds() const { return rounds_.rounds.size(); }
  std::uint32_t tiles() const { return layout_->plan().max_tiles(); }
  // The statistics stage. The transfers of each list are exchanged before the next step.
  Status compute_statistics(cudaStream_t stream);
  void add_statistics(StreamTransfers& transfers);
  Status combine_statistics(cudaStream_t stream);
  void add_combined_statistics(StreamTransfers& transfers);
  // Chooses widths and tiles.
  Status make_plan(cudaStream_t stream);
  // The sum: as in TileMessages.
  Status compute(std::uint32_t tile, std::size_t round, cudaStream_t stream);
  void add_transfers(std::uint32_t tile, std::size_t round, StreamTransfers& transfers);
  // Writes the sums to the gradients, and keeps the new residuals if the sums are finite.
  Status store(cudaStream_t stream);
  // Called after every reserve(), also if the call failed: all its work is on the stream.
  Status release(cudaStream_t stream);

  Status make_codecs();
  Expected<DeviceLayout*> find_layout(std::span<const Gradient> gradients, cudaStream_t stream);

  // Constant once created.
  const DeviceAllReduceOptions options_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const std::unique_ptr<Codec> codec_;
  DeviceAllocator& allocator_;
  const SumPlan hop_plan_;  // only for its stages
  HopCodecs hop_codecs_;
  const Schedule schedule_;
  const DeviceRounds rounds_;
  const std::vector<std::uint32_t> contributions_;  // of the messages
  const bool adds_one_by_one_;                      // for some chunk, messages are added one by one
  const std::unique_ptr<DeviceFeedback> feedback_;  // null if the codec keeps no residuals

  // State of the current call.
  AllReduceCall call_;
  CallDraws draws_;
  std::span<const std::uint64_t> firsts_;
  GradientRange results_;  // the gradients whose sums this rank gets
  ShardBorders borders_;   // in a reduce-scatter, the first gradient of each shard
  DeviceLayout* layout_ = nullptr;

  LayoutCache<DeviceLayout> layouts_;
  DeviceStatistics statistics_;
  TileMessages messages_;
};

}  // namespace nf::cuda
