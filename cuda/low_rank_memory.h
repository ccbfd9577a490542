// What powersgd remembers of a route's parameters from step to step, in device memory: LowRank's
// basis and error. Lanes share it, since a parameter may change its lane when DDP builds its
// buckets anew; whoever uses a parameter on a stream waits for the stream that used it last.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "cuda/device_memory.h"
#include "cuda/step_reading.h"
#include "neuron_fabric/all_reduce.h"

namespace nf::cuda {

class LowRankMemory {
 public:
  // Of one matrix that travels as factors.
  struct State {
    explicit State(DeviceAllocator& allocator) : room(allocator) {}

    float* basis() const { return room.as<float>(); }
    float* error() const { return room.as<float>() + error_at; }

    std::size_t rows = 0;  // 0 where nothing is remembered
    std::size_t cols = 0;
    std::size_t error_at = 0;
    bool is_new = true;  // nothing is in it yet
    cudaStream_t user = nullptr;
    DeviceBuffer room;
  };

  // `allocator` gives memory for work on `home`.
  LowRankMemory(std::uint32_t terms, DeviceAllocator& allocator, cudaStream_t home);
  ~LowRankMemory();
  LowRankMemory(const LowRankMemory&) = delete;
  LowRankMemory& operator=(const LowRankMemory&) = delete;

  std::uint32_t terms() const { return terms_; }

  // The state of a parameter for work on `stream`, until used(stream); null where a matrix of this
  // shape travels as it is. Where it is_new, the caller starts the basis and clears the error.
  // Fails where another shape is remembered.
  Expected<State*> use(std::uint64_t parameter, std::size_t rows, std::size_t cols,
                       cudaStream_t stream);
  // All that use() has given out for `stream` is on it.
  Status used(cudaStream_t stream);

  // Keeps the room for when it comes again.
  void forget(std::uint64_t parameter);
  // Gives up the room, too.
  void drop(std::uint64_t parameter);

  // Work that comes on `home` now comes after all use. Then, as AllReduce has them; both wait for
  // `home`.
  Status come_home() const;
  Expected<std::vector<Remembered>> remembered() const;
  Status remember(std::span<const Remembered> memory);

  // Device memory held.
  std::size_t size() const;

 private:
  Expected<State*> make_room(std::uint64_t parameter, std::size_t rows, std::size_t cols);

  // Constant after construction.
  const std::uint32_t terms_;
  DeviceAllocator& allocator_;
  const cudaStream_t home_;

  std::unordered_map<std::uint64_t, std::unique_ptr<State>> states_;  // by parameter
  std::map<cudaStream_t, Event> last_uses_;
};

}  // namespace nf::cuda
