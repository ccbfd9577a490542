// Sums gradients in device memory over all ranks, compressed as a codec says: AllReduce on streams.
// The schedules, plans and bytes are those of the CPU; what differs is who waits. Everything is put
// on streams at once, the host never waits for the device, and while one tile is on its way, the
// kernels of another run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collective/schedule.h"
#include "cuda/collective/device_collective.h"
#include "cuda/collective/device_feedback.h"
#include "cuda/collective/device_layout.h"
#include "cuda/collective/device_rounds.h"
#include "cuda/collective/layout_cache.h"
#include "cuda/collective/message_maker.h"
#include "cuda/transport/stream_transport.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

class DeviceAllReduce final : public DeviceCollective {
 public:
  // kBadConfig for a codec that cannot be, and kUnsupported for one that has no device form, and
  // for hierarchical, which DeviceHierarchy is for.
  static Status check(const DeviceAllReduceOptions& options, std::uint32_t ranks);
  // Borrows the transport, and the memory, which a codec that keeps residuals needs. Fails as
  // check() does.
  static Expected<std::unique_ptr<DeviceAllReduce>> create(StreamTransport& transport,
                                                           const DeviceAllReduceOptions& options,
                                                           ResidualMemory* memory = nullptr);
  ~DeviceAllReduce() override;

  Status enqueue(const AllReduceCall& call, cudaStream_t stream) override;
  // The same for parts of parameters: `firsts` says which element comes first in each, a multiple
  // of granule(). Parts at the same addresses have the same ones in every call. Precondition: the
  // codec keeps no residuals.
  Status enqueue_parts(const AllReduceCall& call, std::span<const std::uint64_t> firsts,
                       cudaStream_t stream);
  std::size_t granule() const { return codec_->granule(); }
  Traffic traffic() const override { return traffic_; }
  std::size_t memory() const override;
  void forget(std::uint64_t parameter) override {
    if (feedback_ != nullptr) feedback_->forget(parameter);
  }

 private:
  DeviceAllReduce(StreamTransport& transport, const DeviceAllReduceOptions& options,
                  std::unique_ptr<Codec> codec, ResidualMemory* memory);

  Status prepare();
  Expected<DeviceLayout*> layout_of(const AllReduceCall& call,
                                    std::span<const std::uint64_t> firsts, cudaStream_t stream);
  Status exchange_statistics(const DeviceLayout& layout, const AllReduceCall& call,
                             cudaStream_t stream);
  Status sum_tiles(const DeviceLayout& layout, const AllReduceCall& call, cudaStream_t stream);
  // The kernels of one tile before its round `round`; after the last one, its decodes.
  Status compute(const DeviceLayout& layout, const AllReduceCall& call, std::uint32_t tile,
                 std::size_t round, cudaStream_t stream);
  Status communicate(const DeviceLayout& layout, std::uint32_t tile, std::size_t round);
  Status wait_for_exchanges(cudaStream_t stream);
  Status make_message(const DeviceLayout& layout, const AllReduceCall& call, std::uint32_t chunk,
                      std::uint32_t tile, Origin origin, const MessageSlot& slot,
                      cudaStream_t stream);
  Batch batch(const DeviceLayout& layout, const AllReduceCall& call, std::uint32_t chunk,
              std::uint32_t tile) const;
  const DeviceCodec& device_codec(std::uint32_t contributions) const;
  std::byte* place(const MessageSlot& slot, std::uint32_t tile) const {
    return messages_.data() + slot.of(tile);
  }

  // Constant once prepared.
  StreamTransport& transport_;
  const DeviceAllReduceOptions options_;
  const std::unique_ptr<Codec> codec_;
  DeviceAllocator& allocator_;
  const SumPlan stages_plan_;  // for its stages alone
  DeviceStages device_stages_;
  const Schedule schedule_;
  const DeviceRounds rounds_;
  const std::vector<std::uint32_t> contributions_;  // that messages have
  const bool adds_in_turn_;                         // some chunk's messages, one after the other
  const std::unique_ptr<DeviceFeedback> feedback_;  // null where the codec keeps no residuals
  MessageMaker maker_;
  cudaStream_t wire_ = nullptr;  // where exchanges happen

  LayoutCache<DeviceLayout> layouts_;
  DeviceBuffer messages_;
  DeviceBuffer statistics_;
  std::vector<cudaEvent_t> made_;     // by tile: its messages of this round are there
  std::vector<cudaEvent_t> arrived_;  // by tile
  Traffic traffic_;
  std::vector<StreamTransfer> sends_;
  std::vector<StreamTransfer> receives_;
};

}  // namespace nf::cuda
