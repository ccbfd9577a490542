#include "cuda/collective/residual_memory.h"

#include "collective/residuals.h"
#include "cuda/base/launch.h"

namespace nf::cuda {

Expected<float*> ResidualMemory::use(std::uint64_t parameter, std::size_t count,
                                     cudaStream_t stream) {
  State* state = find(parameter);
  if (state != nullptr) {
    NF_RETURN_IF_ERROR(check_residual(parameter, state->arrays[0].count, count));
  } else {
    const Expected<State*> made = allocate(parameter, {{.kind = Residuals::kKind, .count = count}});
    if (!made) return made.status();
    state = *made;
  }
  NF_RETURN_IF_ERROR(acquire(*state, stream));
  if (state->is_new && count > 0) {
    NF_RETURN_IF_ERROR(
        to_status(cudaMemsetAsync(state->values(0), 0, count * sizeof(float), stream),
                  "clearing a residual"));
  }
  state->is_new = false;
  return state->values(0);
}

Status ResidualMemory::load_memory(std::span<const MemoryEntry> memory) {
  NF_RETURN_IF_ERROR(
      check_residuals(memory, [this](std::uint64_t parameter) -> std::optional<std::size_t> {
        const State* state = find(parameter);
        if (state == nullptr) return {};
        return state->arrays[0].count;
      }));
  for (const MemoryEntry& one : memory) {
    const Expected<State*> made =
        allocate(one.parameter, {{.kind = Residuals::kKind, .count = one.values.size()}});
    if (!made) return made.status();
    NF_RETURN_IF_ERROR(load(**made, 0, one.values));
  }
  return end_loading();
}

}  // namespace nf::cuda
