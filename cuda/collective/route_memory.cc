#include "cuda/collective/route_memory.h"

#include <utility>

#include "collective/checkpoint_checks.h"
#include "cuda/base/launch.h"

namespace nf::cuda {

RouteMemory::RouteMemory(DeviceAllocator& allocator, cudaStream_t home)
    : allocator_(allocator), home_(home) {}

RouteMemory::~RouteMemory() { static_cast<void>(wait_for_uses()); }

RouteMemory::State* RouteMemory::find(std::uint64_t parameter) const {
  const auto found = states_.find(parameter);
  return found == states_.end() || found->second->arrays.empty() ? nullptr : found->second.get();
}

Expected<RouteMemory::State*> RouteMemory::allocate(std::uint64_t parameter,
                                                    std::vector<Array> arrays) {
  auto& state = states_[parameter];
  if (state == nullptr) state = std::make_unique<State>(allocator_);
  std::size_t size = 0;
  for (Array& array : arrays) {
    array.at = size / sizeof(float);
    size += aligned(array.count * sizeof(float));
  }
  if (state->buffer.size() < size) {
    state->arrays.clear();
    NF_RETURN_IF_ERROR(wait_for_uses());
    NF_RETURN_IF_ERROR(state->buffer.reserve(size, home_));
    NF_RETURN_IF_ERROR(used(home_));
    state->user = home_;
  }
  state->arrays = std::move(arrays);
  state->is_new = true;
  return state.get();
}

Status RouteMemory::acquire(State& state, cudaStream_t stream) {
  if (state.user == stream) return {};
  if (const auto last = last_uses_.find(state.user); last != last_uses_.end()) {
    NF_RETURN_IF_ERROR(last->second.block(stream));
  }
  state.user = stream;
  return {};
}

Status RouteMemory::used(cudaStream_t stream) { return last_uses_[stream].record(stream); }

void RouteMemory::forget(std::uint64_t parameter) {
  if (State* state = find(parameter); state != nullptr) state->arrays.clear();
}

void RouteMemory::drop(std::uint64_t parameter) {
  static_cast<void>(wait_for_uses());
  states_.erase(parameter);
}

Status RouteMemory::wait_for_uses() const {
  for (const auto& [stream, event] : last_uses_) {
    if (stream != home_) NF_RETURN_IF_ERROR(event.block(home_));
  }
  return {};
}

Expected<std::vector<MemoryEntry>> RouteMemory::save_memory() const {
  NF_RETURN_IF_ERROR(wait_for_uses());
  std::vector<MemoryEntry> memory;
  for (const auto& [parameter, state] : states_) {
    if (state->is_new) continue;
    for (std::size_t i = 0; i < state->arrays.size(); ++i) {
      const Array& array = state->arrays[i];
      MemoryEntry& one =
          memory.emplace_back(MemoryEntry{.parameter = parameter,
                                          .kind = std::string(array.kind),
                                          .rows = state->rows,
                                          .values = std::vector<float>(array.count)});
      if (array.count == 0) continue;
      NF_RETURN_IF_ERROR(
          to_status(cudaMemcpyAsync(one.values.data(), state->values(i),
                                    array.count * sizeof(float), cudaMemcpyDeviceToHost, home_),
                    "copying route memory to the host"));
    }
  }
  NF_RETURN_IF_ERROR(to_status(cudaStreamSynchronize(home_), "copying route memory to the host"));
  sort_memory(memory);
  return memory;
}

Status RouteMemory::load(State& state, std::size_t array, std::span<const float> values) {
  NF_RETURN_IF_ERROR(acquire(state, home_));
  state.is_new = false;
  if (values.empty()) return {};
  return to_status(cudaMemcpyAsync(state.values(array), values.data(), values.size_bytes(),
                                   cudaMemcpyHostToDevice, home_),
                   "copying route memory to the device");
}

Status RouteMemory::end_loading() {
  NF_RETURN_IF_ERROR(used(home_));
  return to_status(cudaStreamSynchronize(home_), "copying route memory to the device");
}

std::size_t RouteMemory::size() const {
  std::size_t bytes = 0;
  for (const auto& [parameter, state] : states_) bytes += state->buffer.size();
  return bytes;
}

}  // namespace nf::cuda
