// The device side of the plans of a sum (collective/chunk_plans.h) for one set of gradients: tables
// of pieces, and the launches that choose widths. Only addresses may change from call to call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collective/chunk_plans.h"
#include "cuda/base/device_memory.h"
#include "cuda/codec/device_codec.h"
#include "cuda/codec/device_tables.h"
#include "cuda/codec/sparse_plan.h"
#include "cuda/collective/piece_table.h"
#include "cuda/collective/super_group_plan.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

// The device codecs of a sum, by hop: SumPlan's stages.
using HopCodecs = std::vector<std::unique_ptr<DeviceCodec>>;

// The inputs of the random draws of a call.
struct CallDraws {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;

  Batch of(Batch batch) const {
    batch.seed = seed;
    batch.step = step;
    return batch;
  }
};

class DevicePlan {
 public:
  struct Request {
    const Codec& codec;
    SumOrder order;
    std::span<const Gradient> gradients;  // of one type
    // If gradients are parts of parameters: the first element of each in its parameter.
    std::span<const std::uint64_t> firsts = {};
    std::uint32_t chunks = 1;
    // If the chunks are given: the first gradient of each, and one more at the end.
    std::span<const std::size_t> borders = {};
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

  // Work that follows on `stream` uses the values of these gradients. Precondition: they are those
  // of create(), possibly at other addresses.
  Status move_to(std::span<const Gradient> gradients, cudaStream_t stream) {
    return pieces_.move_to(gradients, stream);
  }

  const ChunkPlans& chunks() const { return chunks_; }
  std::uint32_t max_tiles() const { return max_tiles_; }  // of a chunk
  // Whether a chunk has this tile, and the tile has a message. The same on all ranks.
  bool has_message(std::uint32_t chunk, std::uint32_t tile) const {
    return tile < chunks_.tiles(chunk) && !chunks_.is_empty(chunk, tile);
  }

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
    return super_groups_ ? super_groups_->pieces()
                         : std::span(pieces_.on_device(first_tile_piece_), tile_piece_count_);
  }
  std::size_t message_size(std::uint32_t chunk, std::uint32_t tile,
                           std::uint32_t contributions) const;
  template <typename Byte>
  DeviceMessageOf<Byte> message(std::uint32_t chunk, std::uint32_t tile, Origin origin,
                                Byte* bytes) const {
    DeviceMessageOf<Byte> message{
        .bytes = bytes, .size = message_size(chunk, tile, origin.contributions), .origin = origin};
    if (!sparse_.empty()) {
      message.offsets = sparse_[budget_of(chunk)].offsets;
    } else if (super_groups_) {
      message.offsets = super_groups_->offsets(chunks_.plan(chunk).stage(origin.contributions));
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

  DevicePlan(const Request& request, DeviceAllocator& allocator)
      : chunks_(request.codec, request.order),
        pieces_(request.gradients),
        tables_(allocator),
        statistics_(allocator) {}

  Status build(const Request& request, cudaStream_t stream);
  std::uint32_t add_pieces(const Request& request, std::span<const Piece> pieces,
                           std::size_t first_parameter = 0);
  std::vector<std::size_t> cut_parts(const Request& request, std::span<const Piece> domain);
  void cut_tiles(const Request& request, DeviceTables& tables);
  std::vector<PlanBudget> find_budgets(const Request& request);
  void reserve_sparse(std::span<const PlanBudget> budgets, const SparseCodec& codec,
                      DeviceTables& tables);
  Batch batch_of(const DevicePiece* pieces, std::size_t count, std::uint32_t blocks) const;
  std::size_t index(std::uint32_t chunk, std::uint32_t tile) const {
    return first_tile_[chunk] + tile;
  }
  // Given chunks have a budget each, others share one.
  std::size_t budget_of(std::uint32_t chunk) const { return has_borders_ ? chunk : 0; }

  ChunkPlans chunks_;
  bool has_borders_ = false;
  std::uint32_t max_tiles_ = 0;
  std::vector<std::uint32_t> first_tile_;  // by chunk, among the tiles of all chunks
  DataType type_ = DataType::kFloat32;
  // The whole parameters, then the parts of the statistics, then the tiles if sizes follow from
  // counts; for sparse codecs the whole parameters again, with the blocks of their budget.
  PieceTable pieces_;
  DeviceBuffer tables_;
  DeviceBuffer statistics_;
  std::vector<std::size_t> statistics_at_;  // by parameter, and one more at the end
  Batch whole_;
  std::vector<Part> parts_;

  // If sizes follow from counts.
  std::size_t first_tile_piece_ = 0;  // in the table
  std::size_t tile_piece_count_ = 0;
  std::vector<Tile> tiles_;
  std::map<std::uint32_t, const std::uint64_t*> piece_at_;  // by contributions

  // If widths of super-groups are chosen.
  std::optional<SuperGroupPlan> super_groups_;

  // For sparse codecs.
  SparseShape sparse_shape_;
  std::vector<SparseTables> sparse_;  // by budget
};

}  // namespace nf::cuda
