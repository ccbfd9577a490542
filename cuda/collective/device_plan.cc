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
          .ranks = chunks_.order().ranks};
}

// Appends the pieces to the table; returns the number of their blocks. Their parameters are
// numbered from `first_parameter` on.
std::uint32_t DevicePlan::add_pieces(const Request& request, std::span<const Piece> pieces,
                                     std::size_t first_parameter) {
  std::uint32_t blocks = 0;
  for (const Piece& piece : pieces) {
    const std::size_t parameter = first_parameter + piece.parameter;
    const Gradient& gradient = request.gradients[parameter];
    const std::uint64_t first = request.firsts.empty() ? 0 : request.firsts[parameter];
    const bool has_statistics = request.codec.statistics_size(piece.count) > 0;
    pieces_.add({.statistics = has_statistics ? statistics_.data() + statistics_at_[parameter] +
                                                    request.codec.statistics_size(piece.first)
                                              : nullptr,
                 .parameter = gradient.parameter,
                 .first = first + piece.first,
                 .count = static_cast<std::uint32_t>(piece.count),
                 .first_block = blocks},
                {.gradient = static_cast<std::uint32_t>(parameter),
                 .offset = piece.first * size_of(type_)});
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
  has_borders_ = !request.borders.empty();
  const SumDomain values{.pieces = domain, .counts = counts, .borders = request.borders};
  if (request.granule == 0) {
    chunks_.cut(values, request.chunks, request.tile_bytes);
  } else {
    chunks_.make_even(request.granule, values, request.chunks, request.tile_bytes);
  }
  NF_RETURN_IF_ERROR(statistics_.reserve(std::max<std::size_t>(statistics, 1), stream));

  DeviceTables tables;
  const std::uint32_t blocks = add_pieces(request, domain);
  whole_ = batch_of(nullptr, domain.size(), blocks);
  const std::vector<std::size_t> first_piece = cut_parts(request, domain);
  const std::vector<PlanBudget> budgets = find_budgets(request);
  const std::size_t after_parts = pieces_.size();
  if (const auto* sparse = dynamic_cast<const SparseCodec*>(&codec); sparse != nullptr) {
    reserve_sparse(budgets, *sparse, tables);
  } else if (codec.max_width() != 0) {
    super_groups_.emplace().reserve(budgets, whole_, request.order, tables);
  } else {
    cut_tiles(request, tables);
  }
  pieces_.add_to(tables);
  NF_RETURN_IF_ERROR(tables.upload(tables_, stream));
  whole_.pieces = pieces_.on_device(0);
  for (std::size_t rank = 0; rank < parts_.size(); ++rank) {
    parts_[rank].batch.pieces = pieces_.on_device(first_piece[rank]);
  }
  for (std::size_t i = 0; i < sparse_.size(); ++i) {
    sparse_[i].parameters = pieces_.on_device(after_parts + budgets[i].parameters.first_piece);
    sparse_[i].bytes_at = sparse_.front().bytes_at;
  }
  return {};
}

// Numbers the tiles of all chunks.
std::vector<PlanBudget> DevicePlan::find_budgets(const Request& request) {
  std::uint32_t tiles = 0;
  for (std::uint32_t chunk = 0; chunk < request.chunks; ++chunk) {
    first_tile_.push_back(tiles);
    tiles += chunks_.tiles(chunk);
    max_tiles_ = std::max(max_tiles_, chunks_.tiles(chunk));
  }
  if (!has_borders_) {
    const BatchBounds all{.piece_count = whole_.piece_count, .blocks = whole_.blocks};
    return {{.sum = &chunks_.plan(0), .parameters = all, .tiles = tiles}};
  }
  const auto first_block = [&](std::size_t parameter) {
    return parameter < whole_.piece_count ? pieces_.pieces()[parameter].first_block : whole_.blocks;
  };
  std::vector<PlanBudget> budgets;
  for (std::uint32_t chunk = 0; chunk < request.chunks; ++chunk) {
    const std::size_t first = request.borders[chunk];
    const std::size_t end = request.borders[chunk + 1];
    budgets.push_back({.sum = &chunks_.plan(chunk),
                       .parameters = {.first_piece = static_cast<std::uint32_t>(first),
                                      .piece_count = static_cast<std::uint32_t>(end - first),
                                      .first_block = first_block(first),
                                      .blocks = first_block(end) - first_block(first)},
                       .first_tile = first_tile_[chunk],
                       .tiles = chunks_.tiles(chunk)});
  }
  return budgets;
}

// The parts of the statistics that ranks combine are consecutive. Returns the first piece of each
// part.
std::vector<std::size_t> DevicePlan::cut_parts(const Request& request,
                                               std::span<const Piece> domain) {
  TileMap parts;
  parts.cut_evenly(request.codec.granule(), domain, request.order.ranks);
  std::vector<std::size_t> first_piece;
  std::size_t at = 0;
  for (std::uint32_t rank = 0; rank < request.order.ranks; ++rank) {
    const std::span<const Piece> own = parts.pieces(rank, 0);
    first_piece.push_back(pieces_.size());
    const std::uint32_t blocks = add_pieces(request, own);
    Part part{.first = at, .batch = batch_of(nullptr, own.size(), blocks)};
    for (const Piece& piece : own) part.size += request.codec.statistics_size(piece.count);
    at += part.size;
    parts_.push_back(part);
  }
  return first_piece;
}

void DevicePlan::cut_tiles(const Request& request, DeviceTables& tables) {
  first_tile_piece_ = pieces_.size();
  for (std::uint32_t chunk = 0; chunk < request.chunks; ++chunk) {
    for (std::uint32_t tile = 0; tile < chunks_.tiles(chunk); ++tile) {
      const std::span<const Piece> own = chunks_.pieces(chunk, tile);
      tiles_.push_back(
          {.first_piece = static_cast<std::uint32_t>(pieces_.size() - first_tile_piece_),
           .piece_count = static_cast<std::uint32_t>(own.size())});
      tiles_.back().blocks = add_pieces(request, own, chunks_.first_parameter(chunk));
    }
  }
  tile_piece_count_ = pieces_.size() - first_tile_piece_;
  const std::span<const DevicePiece> pieces = pieces_.pieces().subspan(first_tile_piece_);
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

// Each budget has tables of its own, whose blocks are numbered from 0. The budgets share the memory
// for counting keys, since kernels run one after the other.
void DevicePlan::reserve_sparse(std::span<const PlanBudget> budgets, const SparseCodec& codec,
                                DeviceTables& tables) {
  sparse_shape_ = SparseShape(codec.format());
  sparse_.resize(budgets.size());
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    const BatchBounds& own = budgets[i].parameters;
    for (std::uint32_t p = own.first_piece; p < own.first_piece + own.piece_count; ++p) {
      DevicePiece piece = pieces_.pieces()[p];
      piece.first_block -= own.first_block;
      pieces_.add(piece, pieces_.source(p));
    }
    SparseTables& sparse = sparse_[i];
    sparse.parameter_count = own.piece_count;
    sparse.blocks = own.blocks;
    sparse.tiles = budgets[i].tiles;
    tables.reserve(own.blocks, &sparse.widths);
    tables.reserve(own.blocks, &sparse.offsets);
    tables.reserve(sparse.tiles, &sparse.bounds);
    tables.reserve(1, &sparse.level);
    tables.reserve(sparse_spans(own.blocks), &sparse.span_sums);
    tables.reserve(sparse.tiles, &sparse.tile_starts);
  }
  tables.reserve(codec.format().poison, &sparse_.front().bytes_at);
}

Status DevicePlan::make(cudaStream_t stream) {
  if (super_groups_) return super_groups_->make(whole_, stream);
  for (std::size_t i = 0; i < sparse_.size(); ++i) {
    const SumPlan& sum = chunks_.plan(static_cast<std::uint32_t>(i));
    NF_RETURN_IF_ERROR(choose_blocks(sparse_shape_, sparse_[i], sum.placing_capacity(), stream));
    NF_RETURN_IF_ERROR(lay_out_blocks(sparse_shape_, sparse_[i], sum.tiles().share(), stream));
  }
  return {};
}

Batch DevicePlan::batch(std::uint32_t chunk, std::uint32_t tile) const {
  const std::size_t budget = budget_of(chunk);
  if (!sparse_.empty()) {
    // Blocks that are not sent take no bytes, so any tile may contain all of them.
    const SparseTables& sparse = sparse_[budget];
    Batch batch = batch_of(sparse.parameters, sparse.parameter_count, sparse.blocks);
    batch.bounds = sparse.bounds + (has_borders_ ? tile : index(chunk, tile));
    return batch;
  }
  if (super_groups_) return super_groups_->batch(whole_, budget, index(chunk, tile));
  const Tile& own = tiles_[index(chunk, tile)];
  return batch_of(pieces().data() + own.first_piece, own.piece_count, own.blocks);
}

std::size_t DevicePlan::message_size(std::uint32_t chunk, std::uint32_t tile,
                                     std::uint32_t contributions) const {
  if (super_groups_ || !sparse_.empty()) return chunks_.plan(chunk).padded_size(contributions);
  return tiles_[index(chunk, tile)].sizes.at(contributions);
}

}  // namespace nf::cuda
