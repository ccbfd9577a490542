// AllReduce with a codec on device memory and CUDA streams. Schedules, plans and bytes are those of
// the CPU. All work is enqueued at once, without host synchronisation; while one tile is exchanged,
// the kernels of another run.
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
  // kBadConfig for an invalid codec; kUnsupported for a codec without a CUDA implementation, and
  // for the hierarchical topology (see DeviceHierarchy).
  static Status check(const DeviceAllReduceOptions& options, std::uint32_t ranks);
  // Keeps references to the transport and the memory. A codec that keeps residuals needs a memory.
  // Fails like check().
  static Expected<std::unique_ptr<DeviceAllReduce>> create(StreamTransport& transport,
                                                           const DeviceAllReduceOptions& options,
                                                           ResidualMemory* memory = nullptr);
  ~DeviceAllReduce() override;

  Status enqueue(const AllReduceCall& call, cudaStream_t stream) override;
  // The same for parts of parameters: `firsts` are the first elements of the parts, multiples of
  // granule(). Parts at the same addresses must have the same firsts in every call. Precondition:
  // the codec keeps no residuals.
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
  // Enqueues the kernels of one tile before its round `round`; after the last round, the decodes.
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
  std::byte* bytes_of(const MessageSlot& slot, std::uint32_t tile) const {
    return messages_.data() + slot.of(tile);
  }

  // Constant once prepared.
  StreamTransport& transport_;
  const DeviceAllReduceOptions options_;
  const std::unique_ptr<Codec> codec_;
  DeviceAllocator& allocator_;
  const SumPlan hop_plan_;  // only for its stages
  HopCodecs hop_codecs_;
  const Schedule schedule_;
  const DeviceRounds rounds_;
  const std::vector<std::uint32_t> contributions_;  // of the messages
  const bool adds_one_by_one_;                      // for some chunk, messages are added one by one
  const std::unique_ptr<DeviceFeedback> feedback_;  // null if the codec keeps no residuals
  MessageMaker maker_;
  cudaStream_t wire_ = nullptr;  // stream of the exchanges

  LayoutCache<DeviceLayout> layouts_;
  DeviceBuffer messages_;
  DeviceBuffer statistics_;
  std::vector<cudaEvent_t> made_;     // by tile: the messages of the round are encoded
  std::vector<cudaEvent_t> arrived_;  // by tile: the messages of the round are received
  Traffic traffic_;
  std::vector<StreamTransfer> sends_;
  std::vector<StreamTransfer> receives_;
};

}  // namespace nf::cuda
