// Route memory on a device. All channels share it, because a parameter may change its channel when
// DDP rebuilds its buckets. A stream that uses the memory of a parameter waits for the stream that
// used it last.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cuda/base/device_memory.h"
#include "cuda/base/event.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

class RouteMemory {
 public:
  // One array of a parameter.
  struct Array {
    std::string_view kind;
    std::size_t count = 0;  // FP32 values
    std::size_t at = 0;     // index of the first one in the buffer
  };

  // The memory of one parameter.
  struct State {
    explicit State(DeviceAllocator& allocator) : buffer(allocator) {}

    float* values(std::size_t array) const { return buffer.as<float>() + arrays[array].at; }

    std::vector<Array> arrays;  // empty: no memory
    std::size_t rows = 0;       // of a matrix, otherwise 0
    std::size_t cols = 0;
    bool is_new = true;  // the arrays are not initialised
    cudaStream_t user = nullptr;
    DeviceBuffer buffer;
  };

  virtual ~RouteMemory();
  RouteMemory(const RouteMemory&) = delete;
  RouteMemory& operator=(const RouteMemory&) = delete;

  // All work that uses memory acquired for `stream` has been enqueued on it.
  Status used(cudaStream_t stream);

  // Deletes the memory of a parameter and keeps its buffer.
  void forget(std::uint64_t parameter);
  // Deletes the buffer, too.
  void drop(std::uint64_t parameter);

  // Later work on `home` waits for all uses of the memory.
  Status wait_for_uses() const;
  // As in AllReduce. Both wait for `home`.
  Expected<std::vector<MemoryEntry>> save_memory() const;
  virtual Status load_memory(std::span<const MemoryEntry> memory) = 0;

  // Device memory held.
  std::size_t size() const;

 protected:
  // `allocator` allocates for work on `home`.
  RouteMemory(DeviceAllocator& allocator, cudaStream_t home);

  // Null if the parameter has no memory.
  State* find(std::uint64_t parameter) const;
  // A new state with these arrays; replaces an existing one.
  Expected<State*> allocate(std::uint64_t parameter, std::vector<Array> arrays);
  // Work enqueued on `stream` from now on may use the state, until used(stream).
  Status acquire(State& state, cudaStream_t stream);
  // Fills an array of a new state on `home`. end_loading() waits for all copies.
  Status load(State& state, std::size_t array, std::span<const float> values);
  Status end_loading();

 private:
  // Constant after construction.
  DeviceAllocator& allocator_;
  const cudaStream_t home_;

  std::unordered_map<std::uint64_t, std::unique_ptr<State>> states_;  // by parameter
  std::map<cudaStream_t, Event> last_uses_;
};

}  // namespace nf::cuda
