// The device side of the plan of an all-reduce (collective/sum_plan.h) for one set of gradients:
// tables of pieces, and the launches that choose widths.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "collective/sum_plan.h"
#include "cuda/base/device_memory.h"
#include "cuda/codec/device_codec.h"
#include "cuda/codec/device_tables.h"
#include "cuda/codec/sparse_plan.h"
#include "cuda/codec/width_plan.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

// The device codecs of an all-reduce, by hop: SumPlan's stages.
using HopCodecs = std::vector<std::unique_ptr<DeviceCodec>>;

class DevicePlan {
 public:
  struct Request {
    const Codec& codec;
    SumOrder order;
    std::span<const Gradient> gradients;  // of one type
    // If gradients are parts of parameters: the first element of each in its parameter.
    std::span<const std::uint64_t> firsts = {};
    std::uint32_t chunks = 1;
    std::size_t tile_bytes = 0;
    std::span<const std::uint32_t> contributions;  // of the messages
    // If not 0, all chunks and tiles have the same number of granules of this many values.
    // Precondition: the codec chooses no widths.
    std::size_t granule = 0;
  };
  // Creates the tables that depend only on sizes. Keeps a reference to the codec.
  static Expected<std::unique_ptr<DevicePlan>> create(const Request& request,
                                                      DeviceAllocator& allocator,
                                                      cudaStream_t stream);

  std::uint32_t tiles_per_chunk() const { return sum_.tiles().tiles_per_chunk(); }
  const SumPlan& sum() const { return sum_; }

  // All values, one piece per parameter.
  Batch whole() const { return whole_; }
  // The combined statistics of all parameters; the caller fills them in.
  std::size_t statistics_size() const { return statistics_at_.back(); }
  std::byte* statistics() const { return statistics_.data(); }
  // The part of the statistics that `rank` combines.
  struct Part {
    std::size_t first = 0;
    std::size_t size = 0;
    Batch batch;
  };
  const Part& part(std::uint32_t rank) const { return parts_[rank]; }

  // Chooses widths and tiles. Precondition: the combined statistics are filled in.
  Status make(cudaStream_t stream);

  Batch batch(std::uint32_t chunk, std::uint32_t tile) const;
  // The pieces of all tiles, of which batches are parts. If widths are chosen, the maximum number.
  // Empty for sparse codecs.
  std::span<const DevicePiece> pieces() const {
    return {chooses_widths_ ? width_tables_.pieces : pieces_, max_pieces_};
  }
  std::size_t message_size(std::uint32_t chunk, std::uint32_t tile,
                           std::uint32_t contributions) const;
  template <typename Byte>
  DeviceMessageOf<Byte> message(std::uint32_t chunk, std::uint32_t tile, Origin origin,
                                Byte* bytes) const {
    DeviceMessageOf<Byte> message{
        .bytes = bytes, .size = message_size(chunk, tile, origin.contributions), .origin = origin};
    if (is_sparse_) {
      message.offsets = sparse_tables_.offsets;
    } else if (chooses_widths_) {
      message.offsets = hops_[sum_.stage(origin.contributions)].offsets;
    } else {
      message.piece_at =
          piece_at_.at(origin.contributions) + tiles_[index(chunk, tile)].first_piece;
    }
    return message;
  }

  // Device memory in bytes.
  std::size_t memory() const { return tables_.size() + statistics_.size(); }

 private:
  struct Tile {
    std::uint32_t first_piece = 0;
    std::uint32_t piece_count = 0;
    std::uint32_t blocks = 0;
    std::map<std::uint32_t, std::size_t> sizes = {};  // by contributions
  };
  struct Hop {
    DeviceWidthRule rule;
    std::uint8_t* widths = nullptr;
    SuperGroupOffsets* offsets = nullptr;
  };

  DevicePlan(const Request& request, DeviceAllocator& allocator)
      : sum_(request.codec, request.order), tables_(allocator), statistics_(allocator) {}

  Status build(const Request& request, cudaStream_t stream);
  std::uint32_t add_pieces(const Request& request, std::span<const Piece> pieces,
                           std::vector<DevicePiece>& out) const;
  std::vector<std::size_t> cut_parts(const Request& request, std::span<const Piece> domain,
                                     std::vector<DevicePiece>& pieces);
  void cut_tiles(const Request& request, DeviceTables& tables);
  void reserve_widths(const Request& request, DeviceTables& tables);
  void reserve_sparse(const Request& request, const SparseCodec& codec, DeviceTables& tables);
  Batch batch_of(const DevicePiece* pieces, std::size_t count, std::uint32_t blocks) const;
  std::size_t index(std::uint32_t chunk, std::uint32_t tile) const {
    return std::size_t{chunk} * tiles_per_chunk() + tile;
  }

  SumPlan sum_;
  DataType type_ = DataType::kFloat32;
  bool chooses_widths_ = false;
  std::size_t max_pieces_ = 0;  // of all tiles together
  DeviceBuffer tables_;
  DeviceBuffer statistics_;
  std::vector<std::size_t> statistics_at_;  // by parameter, and one more at the end
  Batch whole_;
  std::vector<Part> parts_;

  // If sizes follow from counts.
  const DevicePiece* pieces_ = nullptr;
  std::vector<Tile> tiles_;
  std::map<std::uint32_t, const std::uint64_t*> piece_at_;  // by contributions

  // If widths of super-groups are chosen.
  WidthTables width_tables_;
  std::vector<Hop> hops_;
  std::uint32_t max_tile_blocks_ = 0;

  // For sparse codecs.
  bool is_sparse_ = false;
  SparseShape sparse_shape_;
  SparseTables sparse_tables_;
};

}  // namespace nf::cuda
