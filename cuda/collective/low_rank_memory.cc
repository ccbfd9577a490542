#include "cuda/collective/low_rank_memory.h"

#include "collective/low_rank.h"
#include "collective/low_rank_pairs.h"

namespace nf::cuda {

Expected<RouteMemory::State*> LowRankMemory::use(std::uint64_t parameter, std::size_t rows,
                                                 std::size_t cols, cudaStream_t stream) {
  State* state = find(parameter);
  if (state != nullptr) {
    NF_RETURN_IF_ERROR(check_shape(parameter, {state->rows, state->cols}, {rows, cols}));
  } else {
    if (low_rank_values(rows, cols, terms_) == rows * cols) return nullptr;
    const Expected<State*> made = make(parameter, rows, cols);
    if (!made) return made.status();
    state = *made;
  }
  NF_RETURN_IF_ERROR(acquire(*state, stream));
  return state;
}

Expected<RouteMemory::State*> LowRankMemory::make(std::uint64_t parameter, std::size_t rows,
                                                  std::size_t cols) {
  Expected<State*> made = allocate(parameter, {{.kind = kLowRankBasis, .count = terms_ * cols},
                                               {.kind = kLowRankError, .count = rows * cols}});
  if (!made) return made;
  (*made)->rows = rows;
  (*made)->cols = cols;
  return made;
}

Status LowRankMemory::load_memory(std::span<const MemoryEntry> memory) {
  const Expected<std::vector<LowRankPair>> pairs =
      low_rank_pairs(memory, terms_, [this](std::uint64_t parameter) {
        const State* state = find(parameter);
        return state == nullptr ? LowRankShape() : LowRankShape{state->rows, state->cols};
      });
  if (!pairs) return pairs.status();
  for (const LowRankPair& pair : *pairs) {
    const Expected<State*> made = make(pair.parameter, pair.shape.rows, pair.shape.cols);
    if (!made) return made.status();
    NF_RETURN_IF_ERROR(load(**made, kBasis, pair.basis));
    NF_RETURN_IF_ERROR(load(**made, kError, pair.error));
  }
  return end_loading();
}

}  // namespace nf::cuda
