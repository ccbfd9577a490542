// The part of a DevicePlan for codecs that choose the widths of super-groups: their tables, and the
// launches that fill them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/sum_plan.h"
#include "cuda/codec/device_codec.h"
#include "cuda/codec/device_tables.h"
#include "cuda/codec/width_plan.h"

namespace nf::cuda {

// Parameters that share a budget: all those of a plan, or those of one given chunk.
struct PlanBudget {
  const SumPlan* sum = nullptr;
  BatchBounds parameters;        // in the table of whole parameters
  std::uint32_t first_tile = 0;  // among the tiles of all chunks
  std::uint32_t tiles = 0;
};

class SuperGroupPlan {
 public:
  // Adds the tables of these budgets, which must not be empty. tables.upload() completes the plan;
  // until then it must not move. `whole` is the batch of all parameters.
  void reserve(std::span<const PlanBudget> budgets, const Batch& whole, SumOrder order,
               DeviceTables& tables);

  // Chooses widths and tiles. Precondition: the combined statistics of `whole` are filled in.
  Status make(const Batch& whole, cudaStream_t stream) const;

  // The batch of a tile, which is numbered among the tiles of all chunks.
  Batch batch(const Batch& whole, std::size_t budget, std::size_t tile) const;
  // The pieces of all tiles, and the maximum number of them.
  std::span<const DevicePiece> pieces() const { return {tables_.pieces, max_pieces_}; }
  const SuperGroupOffsets* offsets(std::size_t hop) const { return hops_[hop].offsets; }

 private:
  struct Hop {
    DeviceWidthRule rule;
    bool places_tiles = false;                  // of some budget
    const std::uint64_t* capacities = nullptr;  // by tile; null if no tile has its own widths
    std::uint8_t* widths = nullptr;
    SuperGroupOffsets* offsets = nullptr;
  };

  void add_capacities(std::span<const PlanBudget> budgets, std::size_t hop, DeviceTables& tables);

  WidthTables tables_;
  std::vector<Hop> hops_;
  std::size_t max_pieces_ = 0;  // of all tiles together
  // By budget: the maximum numbers in one tile.
  std::vector<std::uint32_t> max_tile_blocks_;
  std::vector<std::uint32_t> max_tile_pieces_;
};

}  // namespace nf::cuda
