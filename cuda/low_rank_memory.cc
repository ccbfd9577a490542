#include "cuda/low_rank_memory.h"

#include "collective/low_rank.h"
#include "collective/low_rank_pairs.h"
#include "collective/memory.h"
#include "cuda/launch.h"

namespace nf::cuda {

LowRankMemory::LowRankMemory(std::uint32_t terms, DeviceAllocator& allocator, cudaStream_t home)
    : terms_(terms), allocator_(allocator), home_(home) {}

LowRankMemory::~LowRankMemory() { static_cast<void>(come_home()); }

Expected<LowRankMemory::State*> LowRankMemory::use(std::uint64_t parameter, std::size_t rows,
                                                   std::size_t cols, cudaStream_t stream) {
  const auto found = states_.find(parameter);
  State* state = found == states_.end() ? nullptr : found->second.get();
  if (state != nullptr && state->rows != 0) {
    NF_RETURN_IF_ERROR(check_shape(parameter, {state->rows, state->cols}, {rows, cols}));
  } else {
    if (low_rank_values(rows, cols, terms_) == rows * cols) return nullptr;
    const Expected<State*> made = make_room(parameter, rows, cols);
    if (!made) return made.status();
    state = *made;
  }
  if (state->user != stream) {
    if (const auto last = last_uses_.find(state->user); last != last_uses_.end()) {
      NF_RETURN_IF_ERROR(last->second.hold_up(stream));
    }
    state->user = stream;
  }
  return state;
}

Status LowRankMemory::used(cudaStream_t stream) { return last_uses_[stream].record(stream); }

Expected<LowRankMemory::State*> LowRankMemory::make_room(std::uint64_t parameter, std::size_t rows,
                                                         std::size_t cols) {
  auto& state = states_[parameter];
  if (state == nullptr) state = std::make_unique<State>(allocator_);
  const std::size_t basis = aligned(terms_ * cols * sizeof(float));
  const std::size_t size = basis + rows * cols * sizeof(float);
  if (state->room.size() < size) {
    state->rows = 0;
    NF_RETURN_IF_ERROR(come_home());
    NF_RETURN_IF_ERROR(state->room.reserve(size, home_));
    NF_RETURN_IF_ERROR(used(home_));
    state->user = home_;
  }
  state->rows = rows;
  state->cols = cols;
  state->error_at = basis / sizeof(float);
  state->is_new = true;
  return state.get();
}

void LowRankMemory::forget(std::uint64_t parameter) {
  if (const auto found = states_.find(parameter); found != states_.end()) found->second->rows = 0;
}

void LowRankMemory::drop(std::uint64_t parameter) {
  static_cast<void>(come_home());
  states_.erase(parameter);
}

Status LowRankMemory::come_home() const {
  for (const auto& [stream, event] : last_uses_) {
    if (stream != home_) NF_RETURN_IF_ERROR(event.hold_up(home_));
  }
  return {};
}

Expected<std::vector<Remembered>> LowRankMemory::remembered() const {
  NF_RETURN_IF_ERROR(come_home());
  std::vector<Remembered> memory;
  for (const auto& [parameter, state] : states_) {
    if (state->rows == 0 || state->is_new) continue;
    const auto copy = [&](std::string_view what, const float* from, std::size_t count) {
      memory.push_back({.parameter = parameter,
                        .what = std::string(what),
                        .rows = state->rows,
                        .values = std::vector<float>(count)});
      return to_status(cudaMemcpyAsync(memory.back().values.data(), from, count * sizeof(float),
                                       cudaMemcpyDeviceToHost, home_),
                       "copy of what is remembered");
    };
    NF_RETURN_IF_ERROR(copy(kLowRankBasis, state->basis(), terms_ * state->cols));
    NF_RETURN_IF_ERROR(copy(kLowRankError, state->error(), state->rows * state->cols));
  }
  NF_RETURN_IF_ERROR(to_status(cudaStreamSynchronize(home_), "copies of what is remembered"));
  sort_memory(memory);
  return memory;
}

Status LowRankMemory::remember(std::span<const Remembered> memory) {
  const Expected<std::vector<LowRankPair>> pairs =
      low_rank_pairs(memory, terms_, [this](std::uint64_t parameter) {
        const auto found = states_.find(parameter);
        if (found == states_.end() || found->second->rows == 0) return LowRankShape();
        return LowRankShape{found->second->rows, found->second->cols};
      });
  if (!pairs) return pairs.status();
  NF_RETURN_IF_ERROR(come_home());
  for (const LowRankPair& pair : *pairs) {
    const Expected<State*> made = make_room(pair.parameter, pair.shape.rows, pair.shape.cols);
    if (!made) return made.status();
    State& state = **made;
    for (const auto& [to, values] :
         {std::pair(state.basis(), pair.basis), {state.error(), pair.error}}) {
      NF_RETURN_IF_ERROR(to_status(
          cudaMemcpyAsync(to, values.data(), values.size_bytes(), cudaMemcpyHostToDevice, home_),
          "copy of what is to be remembered"));
    }
    state.is_new = false;
    state.user = home_;
  }
  NF_RETURN_IF_ERROR(used(home_));
  return to_status(cudaStreamSynchronize(home_), "copies of what is to be remembered");
}

std::size_t LowRankMemory::size() const {
  std::size_t bytes = 0;
  for (const auto& [parameter, state] : states_) bytes += state->room.size();
  return bytes;
}

}  // namespace nf::cuda
