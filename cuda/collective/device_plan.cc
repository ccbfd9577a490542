#include "cuda/collective/device_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/base/launch.h"

namespace nf::cuda {
namespace {

std::uint32_t blocks_in(std::size_t count, std::size_t granule) {
  return static_cast<std::uint32_t>((count + granule - 1) / granule);
}

}  // namespace

Expected<std::unique_ptr<DevicePlan>> DevicePlan::create(const Request& request,
                                                         DeviceAllocator& allocator,
                                                         cudaStream_t stream) {
  std::unique_ptr<DevicePlan> plan(new DevicePlan(request, allocator));
  if (Status status = plan->build(request, stream); !status.ok()) return status;
  return plan;
}

Batch DevicePlan::batch_of(const DevicePiece* pieces, std::size_t count,
                           std::uint32_t blocks) const {
  return {.pieces = pieces,
          .piece_count = static_cast<std::uint32_t>(count),
          .blocks = blocks,
          .type = type_,
          .ranks = sum_.order().ranks};
}

// Appends the pieces to `out` as DevicePieces; returns the number of their blocks.
std::uint32_t DevicePlan::add_pieces(const Request& request, std::span<const Piece> pieces,
                                     std::vector<DevicePiece>& out) const {
  std::uint32_t blocks = 0;
  for (const Piece& piece : pieces) {
    const Gradient& gradient = request.gradients[piece.parameter];
    const std::uint64_t first = request.firsts.empty() ? 0 : request.firsts[piece.parameter];
    out.push_back(
        {.values = static_cast<std::byte*>(gradient.values.data) + piece.first * size_of(type_),
         .statistics = statistics_.data() + statistics_at_[piece.parameter] +
                       request.codec.statistics_size(piece.first),
         .parameter = gradient.parameter,
         .first = first + piece.first,
         .count = static_cast<std::uint32_t>(piece.count),
         .first_block = blocks});
    blocks += blocks_in(piece.count, request.codec.granule());
  }
  return blocks;
}

Status DevicePlan::build(const Request& request, cudaStream_t stream) {
  const Codec& codec = request.codec;
  std::vector<std::size_t> counts;
  std::vector<Piece> domain;
  std::size_t statistics = 0;
  for (const Gradient& gradient : request.gradients) {
    if (gradient.values.count > DeviceCodec::kMaxValues) {
      return {ErrorCode::kUnsupported,
              fmt::format("gradient of {} values is too large for a device; the limit is {}",
                          gradient.values.count, DeviceCodec::kMaxValues)};
    }
    domain.push_back({.parameter = counts.size(), .first = 0, .count = gradient.values.count});
    counts.push_back(gradient.values.count);
    statistics_at_.push_back(statistics);
    statistics += codec.statistics_size(gradient.values.count);
  }
  statistics_at_.push_back(statistics);
  type_ = request.gradients.empty() ? DataType::kFloat32 : request.gradients.front().values.type;
  chooses_widths_ = codec.max_width() != 0;
  if (request.granule == 0) {
    sum_.cut(domain, counts, request.chunks, request.tile_bytes);
  } else {
    sum_.make_even(request.granule, domain, request.chunks, request.tile_bytes);
  }
  NF_RETURN_IF_ERROR(statistics_.reserve(std::max<std::size_t>(statistics, 1), stream));

  DeviceTables tables;
  std::vector<DevicePiece> whole;
  const std::uint32_t blocks = add_pieces(request, domain, whole);
  whole_ = batch_of(nullptr, whole.size(), blocks);
  tables.add(whole, &whole_.pieces);

  std::vector<DevicePiece> part_pieces;
  const std::vector<std::size_t> first_piece = cut_parts(request, domain, part_pieces);
  const DevicePiece* parts_at = nullptr;
  tables.add(part_pieces, &parts_at);
  if (const auto* sparse = dynamic_cast<const SparseCodec*>(&codec); sparse != nullptr) {
    reserve_sparse(request, *sparse, tables);
  } else if (chooses_widths_) {
    reserve_widths(request, tables);
  } else {
    cut_tiles(request, tables);
  }
  NF_RETURN_IF_ERROR(tables.upload(tables_, stream));
  for (std::size_t rank = 0; rank < parts_.size(); ++rank) {
    parts_[rank].batch.pieces = parts_at + first_piece[rank];
  }
  width_tables_.parameters = whole_.pieces;
  sparse_tables_.parameters = whole_.pieces;
  return {};
}

// The parts of the statistics that ranks combine are consecutive. Returns the first piece of each
// part.
std::vector<std::size_t> DevicePlan::cut_parts(const Request& request,
                                               std::span<const Piece> domain,
                                               std::vector<DevicePiece>& pieces) {
  TileMap parts;
  parts.cut_evenly(request.codec.granule(), domain, request.order.ranks);
  std::vector<std::size_t> first_piece;
  std::size_t at = 0;
  for (std::uint32_t rank = 0; rank < request.order.ranks; ++rank) {
    const std::span<const Piece> own = parts.pieces(rank, 0);
    first_piece.push_back(pieces.size());
    const std::uint32_t blocks = add_pieces(request, own, pieces);
    Part part{.first = at, .batch = batch_of(nullptr, own.size(), blocks)};
    for (const Piece& piece : own) part.size += request.codec.statistics_size(piece.count);
    at += part.size;
    parts_.push_back(part);
  }
  return first_piece;
}

void DevicePlan::cut_tiles(const Request& request, DeviceTables& tables) {
  std::vector<DevicePiece> pieces;
  for (std::uint32_t chunk = 0; chunk < request.chunks; ++chunk) {
    for (std::uint32_t tile = 0; tile < tiles_per_chunk(); ++tile) {
      const std::span<const Piece> own = sum_.tiles().pieces(chunk, tile);
      tiles_.push_back({.first_piece = static_cast<std::uint32_t>(pieces.size()),
                        .piece_count = static_cast<std::uint32_t>(own.size())});
      tiles_.back().blocks = add_pieces(request, own, pieces);
    }
  }
  max_pieces_ = pieces.size();
  tables.add(pieces, &pieces_);
  for (const std::uint32_t contributions : request.contributions) {
    std::vector<std::uint64_t> offsets;
    for (Tile& tile : tiles_) {
      std::size_t size = 0;
      for (std::uint32_t p = 0; p < tile.piece_count; ++p) {
        const DevicePiece& piece = pieces[tile.first_piece + p];
        offsets.push_back(size);
        size += request.codec.encoded_size(
            Slice{.first = piece.first, .count = piece.count, .ranks = request.order.ranks},
            contributions);
      }
      tile.sizes[contributions] = size;
    }
    tables.add(offsets, &piece_at_[contributions]);
  }
}

void DevicePlan::reserve_widths(const Request& request, DeviceTables& tables) {
  const std::uint32_t tiles = request.chunks * tiles_per_chunk();
  max_pieces_ = whole_.piece_count + std::size_t{tiles};
  width_tables_.parameter_count = whole_.piece_count;
  width_tables_.super_groups = whole_.blocks;
  width_tables_.tiles = tiles;
  tables.add(std::vector<BatchBounds>{{.piece_count = whole_.piece_count, .blocks = whole_.blocks}},
             &width_tables_.whole);
  tables.reserve(max_pieces_, &width_tables_.pieces);
  tables.reserve(tiles, &width_tables_.bounds);
  tables.reserve(1, &width_tables_.piece_count);
  tables.reserve(max_pieces_, &width_tables_.piece_parameter);
  tables.reserve(max_pieces_, &width_tables_.piece_tile);
  tables.reserve(max_pieces_, &width_tables_.weights);

  hops_.resize(sum_.stage_count());
  std::size_t min_granule = sum_.tiles().padded_size();
  for (std::size_t hop = 0; hop < hops_.size(); ++hop) {
    // All codecs that choose widths are SuperGroupCodecs, except sparse ones.
    const auto& codec = dynamic_cast<const SuperGroupCodec&>(sum_.stage_codec(hop));
    hops_[hop].rule = DeviceWidthRule(codec, request.order);
    tables.reserve(whole_.blocks, &hops_[hop].widths);
    tables.reserve(whole_.blocks, &hops_[hop].offsets);
    const auto min_width = static_cast<std::uint8_t>(codec.format().min_width);
    min_granule = std::min(min_granule, codec.granule_size(min_width));
  }
  // If super-groups may have width 0, any tile may contain all of them.
  max_tile_blocks_ = whole_.blocks;
  if (min_granule > 0) {
    const std::size_t max = sum_.tiles().padded_size() / min_granule + whole_.piece_count + 1;
    max_tile_blocks_ = static_cast<std::uint32_t>(std::min<std::size_t>(max, whole_.blocks));
  }
}

// Blocks that are not sent take no bytes, so any tile may contain all blocks.
void DevicePlan::reserve_sparse(const Request& request, const SparseCodec& codec,
                                DeviceTables& tables) {
  is_sparse_ = true;
  sparse_shape_ = SparseShape(codec.format());
  sparse_tables_.parameter_count = whole_.piece_count;
  sparse_tables_.blocks = whole_.blocks;
  sparse_tables_.tiles = request.chunks * tiles_per_chunk();
  tables.reserve(whole_.blocks, &sparse_tables_.widths);
  tables.reserve(whole_.blocks, &sparse_tables_.offsets);
  tables.reserve(sparse_tables_.tiles, &sparse_tables_.bounds);
  tables.reserve(1, &sparse_tables_.level);
  tables.reserve(codec.format().poison, &sparse_tables_.bytes_at);
  tables.reserve(sparse_spans(whole_.blocks), &sparse_tables_.span_sums);
  tables.reserve(sparse_tables_.tiles, &sparse_tables_.tile_starts);
}

Status DevicePlan::make(cudaStream_t stream) {
  if (!chooses_widths_) return {};
  if (is_sparse_) {
    NF_RETURN_IF_ERROR(
        choose_blocks(sparse_shape_, sparse_tables_, sum_.placing_capacity(), stream));
    return lay_out_blocks(sparse_shape_, sparse_tables_, sum_.tiles().share(), stream);
  }
  const std::size_t placing = sum_.placing_stage();
  const Hop& first = hops_[placing];
  NF_RETURN_IF_ERROR(
      choose_widths(first.rule, width_tables_, sum_.placing_capacity(), first.widths, stream));
  NF_RETURN_IF_ERROR(partition_tiles(first.rule, width_tables_, sum_.tiles().share(),
                                     size_of(type_), first.widths, stream));
  for (std::size_t hop = 0; hop < hops_.size(); ++hop) {
    const Hop& own = hops_[hop];
    if (hop != placing) {
      NF_RETURN_IF_ERROR(choose_tile_widths(own.rule, width_tables_, sum_.stage_padded_size(hop),
                                            own.widths, stream));
    }
    NF_RETURN_IF_ERROR(lay_out_tiles(own.rule, width_tables_, own.widths, own.offsets, stream));
  }
  return {};
}

Batch DevicePlan::batch(std::uint32_t chunk, std::uint32_t tile) const {
  if (is_sparse_) {
    Batch batch = whole_;
    batch.bounds = sparse_tables_.bounds + index(chunk, tile);
    return batch;
  }
  if (chooses_widths_) {
    Batch batch = batch_of(width_tables_.pieces, std::min(whole_.piece_count + 1, max_tile_blocks_),
                           max_tile_blocks_);
    batch.bounds = width_tables_.bounds + index(chunk, tile);
    return batch;
  }
  const Tile& own = tiles_[index(chunk, tile)];
  return batch_of(pieces_ + own.first_piece, own.piece_count, own.blocks);
}

std::size_t DevicePlan::message_size(std::uint32_t chunk, std::uint32_t tile,
                                     std::uint32_t contributions) const {
  if (chooses_widths_) return sum_.padded_size(contributions);
  return tiles_[index(chunk, tile)].sizes.at(contributions);
}

}  // namespace nf::cuda
