// A job that reduces for some steps on a route with memory, on the CPU and in device memory. In a
// reduce-scatter, the parameters of each call are in uneven_shards().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/collective/device_collective.h"
#include "cuda/collective/route_memories.h"
#include "support/ranks.h"
#include "support/typed_values.h"

namespace nf::test {

struct RouteJob {
  struct Shape {
    std::size_t rows = 0;  // 0 for a vector
    std::size_t count = 0;
  };
  static Shape matrix(std::size_t rows, std::size_t cols) { return {rows, rows * cols}; }
  // Vectors, one row, few rows, columns that are not multiples of 16, and matrices that powersgd
  // sends as factors for many terms or for few terms only.
  static std::vector<Shape> shapes_of_all_kinds();

  Collective collective = Collective::kAllReduce;
  std::string codec = "powersgd:2";
  std::uint32_t ranks = 2;
  DataType type = DataType::kFloat32;
  Topology topology = Topology::kDirect;
  std::vector<Shape> shapes = shapes_of_all_kinds();
  std::size_t calls = 1;                       // per step, each of a part of the parameters
  std::vector<float> loss_scales = {1, 1, 1};  // by step
  // If set, changes the values of a rank before a step.
  std::function<void(std::size_t step, std::uint32_t rank, Parameters& own)> spoil = {};

  bool scatters() const { return collective == Collective::kReduceScatter; }
  static std::uint64_t key(std::size_t parameter);
  // The gradients of one call.
  std::span<const Gradient> part(std::span<const Gradient> gradients, std::size_t call) const;
  // By step and rank: a rank-1 gradient that ranks and steps share, plus noise.
  std::vector<std::vector<Parameters>> values() const;
};

// The results: values by step, rank and parameter, and the route memory of each rank at the end. In
// a reduce-scatter, a rank has the values of its own shard only; the others are empty.
struct RouteOutcome {
  explicit RouteOutcome(const RouteJob& job)
      : values(job.loss_scales.size(), std::vector<Parameters>(job.ranks)), memory(job.ranks) {}
  std::vector<std::vector<Parameters>> values;
  std::vector<std::vector<MemoryEntry>> memory;
};

// Deletes the values that a rank has no result of.
void keep_results(const RouteJob& job, std::uint32_t rank, Parameters& values);

// Runs the job from step `begin` on. If `memory` is not empty, each rank loads it first.
RouteOutcome on_cpu(const RouteJob& job, std::size_t begin = 0,
                    const std::vector<std::vector<MemoryEntry>>& memory = {});
// Runs the job on the device. Steps use the channels in turn.
RouteOutcome on_device(const RouteJob& job, std::size_t channels = 1, std::size_t begin = 0,
                       const std::vector<std::vector<MemoryEntry>>& memory = {});

// Expects the same bits from step `begin` on, and the same memory.
void expect_same(const RouteJob& job, const RouteOutcome& got, const RouteOutcome& expected,
                 std::size_t begin = 0);
// Expects that the device yields the results of the CPU, with `entries` entries of route memory, or
// with any number but 0 if `entries` is 0.
void expect_same_as_cpu(const RouteJob& job, std::size_t entries = 0);
// Expects that the first parameter, once forgotten, yields the result of its first step again.
// Precondition: two steps.
void expect_restart_after_forget(const RouteJob& job);

// One rank on the device. Parameters are consecutive, as in a bucket, with only the alignment of
// their type. After every other step, they move to another buffer.
class RouteRank {
 public:
  RouteRank(const RouteJob& job, const std::vector<cuda::StreamTransport*>& channels);
  ~RouteRank();

  cuda::RouteMemory& memory() { return *memory_; }
  cuda::DeviceCollective& sum() { return *sums_.front(); }
  std::vector<Gradient>& gradients() { return gradients_; }
  cudaStream_t stream() const { return streams_.front(); }

  Status run(std::size_t step, const Parameters& own, Parameters& summed);

  // The steps of run() on a stream: copies values to the device, and back once they are summed.
  // store() waits for the stream.
  void load(std::size_t step, const Parameters& own, cudaStream_t stream);
  void store(Parameters& summed, cudaStream_t stream);

 private:
  void place_in(void* buffer);
  Status run_call(cuda::DeviceCollective& sum, std::size_t step,
                  std::span<const Gradient> gradients, cudaStream_t stream) const;

  const RouteJob job_;
  const cudaStream_t home_;
  cuda::RouteMemories memories_;
  cuda::RouteMemory* memory_ = nullptr;                        // of the route
  std::vector<std::unique_ptr<cuda::DeviceCollective>> sums_;  // by channel
  std::vector<cudaStream_t> streams_;
  void* buffers_[2] = {};
  std::vector<Gradient> gradients_;
  std::vector<TypedValues> on_host_;  // of the current step
};

// Calls work(rank, its transports) on one thread per rank.
void on_device_ranks(
    std::uint32_t ranks, std::size_t channels,
    const std::function<void(std::uint32_t, const std::vector<cuda::StreamTransport*>&)>& work);

}  // namespace nf::test
