#include "cuda/collective/super_group_plan.h"

#include <algorithm>

#include "codec/super_group_codec.h"

namespace nf::cuda {
namespace {

// All codecs that choose widths are SuperGroupCodecs, except sparse ones.
const SuperGroupCodec& codec_of(const SumPlan& sum, std::size_t hop) {
  return dynamic_cast<const SuperGroupCodec&>(sum.stage_codec(hop));
}

// The maximum number of super-groups in one tile. If some may have width 0, any tile may contain
// all of them.
std::uint32_t max_tile_blocks(const PlanBudget& budget) {
  const std::size_t padded = budget.sum->tiles().padded_size();
  std::size_t min_granule = padded;
  for (std::size_t hop = 0; hop < budget.sum->stage_count(); ++hop) {
    const SuperGroupCodec& codec = codec_of(*budget.sum, hop);
    const auto min_width = static_cast<std::uint8_t>(codec.format().min_width);
    min_granule = std::min(min_granule, codec.granule_size(min_width));
  }
  if (min_granule == 0) return budget.parameters.blocks;
  const std::size_t max = padded / min_granule + budget.parameters.piece_count + 1;
  return static_cast<std::uint32_t>(std::min<std::size_t>(max, budget.parameters.blocks));
}

}  // namespace

void SuperGroupPlan::reserve(std::span<const PlanBudget> budgets, const Batch& whole,
                             SumOrder order, DeviceTables& tables) {
  const SumPlan& any = *budgets.front().sum;
  hops_.resize(any.stage_count());
  std::vector<WidthBudget> width_budgets;
  for (const PlanBudget& budget : budgets) {
    const SumPlan& sum = *budget.sum;
    width_budgets.push_back({.parameters = budget.parameters,
                             .first_tile = budget.first_tile,
                             .tiles = budget.tiles,
                             .first_piece = budget.parameters.first_piece + budget.first_tile,
                             .hop = static_cast<std::uint32_t>(sum.placing_stage()),
                             .capacity = sum.placing_capacity(),
                             .share = sum.tiles().share()});
    hops_[sum.placing_stage()].places_tiles = true;
    max_tile_blocks_.push_back(max_tile_blocks(budget));
    max_tile_pieces_.push_back(
        std::min(budget.parameters.piece_count + 1, max_tile_blocks_.back()));
    tables_.tiles += budget.tiles;
  }
  tables.add(width_budgets, &tables_.budgets);
  tables_.budget_count = static_cast<std::uint32_t>(budgets.size());
  tables_.parameter_count = whole.piece_count;
  max_pieces_ = whole.piece_count + std::size_t{tables_.tiles};
  for (std::size_t hop = 0; hop < hops_.size(); ++hop) {
    hops_[hop].rule = DeviceWidthRule(codec_of(any, hop), order);
    add_capacities(budgets, hop, tables);
    tables.reserve(whole.blocks, &hops_[hop].widths);
    tables.reserve(whole.blocks, &hops_[hop].offsets);
  }
  tables.reserve(max_pieces_, &tables_.pieces);
  tables.reserve(tables_.tiles, &tables_.bounds);
  tables.reserve(max_pieces_, &tables_.piece_parameter);
  tables.reserve(max_pieces_, &tables_.piece_tile);
  tables.reserve(max_pieces_, &tables_.weights);
}

void SuperGroupPlan::add_capacities(std::span<const PlanBudget> budgets, std::size_t hop,
                                    DeviceTables& tables) {
  std::vector<std::uint64_t> capacities;
  bool are_kept = true;
  for (const PlanBudget& budget : budgets) {
    const bool is_kept = budget.sum->placing_stage() == hop;
    are_kept &= is_kept;
    capacities.insert(capacities.end(), budget.tiles,
                      is_kept ? kKeepWidths : budget.sum->stage_padded_size(hop));
  }
  if (!are_kept) tables.add(capacities, &hops_[hop].capacities);
}

Status SuperGroupPlan::make(const Batch& whole, cudaStream_t stream) const {
  WidthTables tables = tables_;
  tables.parameters = whole.pieces;
  for (std::size_t hop = 0; hop < hops_.size(); ++hop) {
    const Hop& own = hops_[hop];
    if (!own.places_tiles) continue;
    const auto number = static_cast<std::uint32_t>(hop);
    NF_RETURN_IF_ERROR(choose_widths(own.rule, tables, number, own.widths, stream));
    NF_RETURN_IF_ERROR(
        partition_tiles(own.rule, tables, number, size_of(whole.type), own.widths, stream));
  }
  for (const Hop& own : hops_) {
    if (own.capacities != nullptr) {
      NF_RETURN_IF_ERROR(choose_tile_widths(own.rule, tables, own.capacities, own.widths, stream));
    }
    NF_RETURN_IF_ERROR(lay_out_tiles(own.rule, tables, own.widths, own.offsets, stream));
  }
  return {};
}

Batch SuperGroupPlan::batch(const Batch& whole, std::size_t budget, std::size_t tile) const {
  Batch batch = whole;
  batch.pieces = tables_.pieces;
  batch.piece_count = max_tile_pieces_[budget];
  batch.blocks = max_tile_blocks_[budget];
  batch.bounds = tables_.bounds + tile;
  return batch;
}

}  // namespace nf::cuda
