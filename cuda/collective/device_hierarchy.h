// Sums gradients in device memory at full precision inside host groups, and compressed between
// them: the hierarchical all-reduce of CodecAllReduce on streams, with the same bits. The ranks of
// a host use the links between their devices, and only the sum of each host crosses the network:
//
//   reduce inside   every member gets the FP32 sum of its part over the host group
//   sum between     members at the same position in all host groups sum that part, over a ring
//   gather inside   every member sends its part to the others, in FP32
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/collective/device_all_reduce.h"
#include "cuda/collective/layout_cache.h"
#include "cuda/collective/layout_key.h"
#include "cuda/collective/value_copies.h"
#include "cuda/transport/stream_subset.h"

namespace nf::cuda {

class DeviceHierarchy final : public DeviceCollective {
 public:
  // kBadConfig if the group size does not divide the number of ranks, kUnsupported for error
  // feedback and for a reduce-scatter, and like DeviceAllReduce::check().
  static Status check(const DeviceAllReduceOptions& options, std::uint32_t ranks);
  // Borrows the transport. Fails like check().
  static Expected<std::unique_ptr<DeviceCollective>> create(StreamTransport& transport,
                                                            const DeviceAllReduceOptions& options);

  Status enqueue(const AllReduceCall& call, std::span<const std::size_t> shards,
                 cudaStream_t stream) override;
  Traffic traffic() const override;
  std::size_t memory() const override;

 private:
  // For calls with one key.
  struct Layout {
    explicit Layout(DeviceAllocator& allocator) : values(allocator) {}

    LayoutKey key;
    ValueCopies values;                   // FP32
    std::unique_ptr<DevicePlan> parts;    // chunk i belongs to member i
    std::vector<std::size_t> part_bytes;  // by member
    std::vector<Piece> pieces;            // this rank's part,
    std::vector<Gradient> domain;         // its values,
    std::vector<std::uint64_t> firsts;    // and index of its first values in their parameters
    std::vector<std::size_t> message_at;  // by member, and the end of the last one
  };

  DeviceHierarchy(StreamTransport& transport, const DeviceAllReduceOptions& options,
                  std::unique_ptr<Codec> dense, std::unique_ptr<DeviceCodec> device_dense);

  Expected<Layout*> layout_of(const AllReduceCall& call, cudaStream_t stream);
  Status prepare(Layout& layout, std::span<const Gradient> gradients, cudaStream_t stream);
  // Finds the values of this rank's part.
  static void set_domain(Layout& layout);
  Status reduce_inside(const Layout& layout, cudaStream_t stream);
  Status gather_inside(const Layout& layout, cudaStream_t stream);
  // One operation of the dense codec over a member's part, tile by tile.
  template <typename Work>
  Status for_each_tile(const Layout& layout, std::uint32_t member, Work work) const;
  Status encode(const Layout& layout, std::uint32_t member, std::byte* message,
                cudaStream_t stream) const;

  // Constant after construction.
  StreamTransport& transport_;
  const DeviceAllReduceOptions options_;
  DeviceAllocator& allocator_;
  const std::unique_ptr<Codec> dense_;
  const std::unique_ptr<DeviceCodec> device_dense_;
  StreamSubset inner_;                        // the rank's host group
  StreamSubset outer_;                        // the ranks at its position in all host groups
  std::vector<std::uint32_t> added_;          // the members in the order in which they are added
  std::unique_ptr<DeviceAllReduce> between_;  // sums over outer_

  LayoutCache<Layout> layouts_;
  DeviceBuffer sent_;
  DeviceBuffer received_;
  Traffic traffic_;  // inside
  std::vector<StreamTransfer> sends_;
  std::vector<StreamTransfer> receives_;
};

}  // namespace nf::cuda
