// What a route remembers of its parameters from step to step, in device memory. Lanes share it,
// since a parameter may change its channel when DDP builds its buckets anew; whoever uses a
// parameter on a stream waits for the stream that used it last.
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
#include "cuda/runtime/step_reading.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

class RouteMemory {
 public:
  // One of the things that are remembered of a parameter.
  struct Array {
    std::string_view what;
    std::size_t count = 0;  // of FP32 values
    std::size_t at = 0;     // the first of them in the room
  };

  // Of one parameter.
  struct State {
    explicit State(DeviceAllocator& allocator) : room(allocator) {}

    float* values(std::size_t array) const { return room.as<float>() + arrays[array].at; }

    std::vector<Array> arrays;  // none where nothing is remembered
    std::size_t rows = 0;       // of a matrix, else 0
    std::size_t cols = 0;
    bool is_new = true;  // nothing is in it yet
    cudaStream_t user = nullptr;
    DeviceBuffer room;
  };

  virtual ~RouteMemory();
  RouteMemory(const RouteMemory&) = delete;
  RouteMemory& operator=(const RouteMemory&) = delete;

  // All that has been lent for `stream` is on it.
  Status used(cudaStream_t stream);

  // Keeps the room for when it comes again.
  void forget(std::uint64_t parameter);
  // Gives up the room, too.
  void drop(std::uint64_t parameter);

  // Work that comes on `home` now comes after all use. Then, as AllReduce has them; both wait for
  // `home`.
  Status join_home_stream() const;
  Expected<std::vector<Remembered>> remembered() const;
  virtual Status remember(std::span<const Remembered> memory) = 0;

  // Device memory held.
  std::size_t size() const;

 protected:
  // `allocator` gives memory for work on `home`.
  RouteMemory(DeviceAllocator& allocator, cudaStream_t home);

  // Null where nothing is remembered of it.
  State* find(std::uint64_t parameter) const;
  // A new state with room for these arrays, in the place of any other.
  Expected<State*> make_room(std::uint64_t parameter, std::vector<Array> arrays);
  // What comes on `stream` now may use the state, until used(stream).
  Status lend(State& state, cudaStream_t stream);
  // Fills an array of a new state on `home`; behind the last one, waits for all of them.
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
