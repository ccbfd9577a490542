// A job that sums for some steps along a route that remembers, on the CPU and in device memory.
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

namespace nf::test {

struct RouteJob {
  struct Shape {
    std::size_t rows = 0;  // 0 for a vector
    std::size_t count = 0;
  };
  static Shape matrix(std::size_t rows, std::size_t cols) { return {rows, rows * cols}; }
  // Vectors, one row, fewer rows than channels, columns that are no multiple of 16, and matrices
  // that powersgd sends as factors for many or for few terms only.
  static std::vector<Shape> shapes_of_all_kinds();

  std::string codec = "powersgd:2";
  std::uint32_t ranks = 2;
  DataType type = DataType::kFloat32;
  Topology topology = Topology::kDirect;
  std::vector<Shape> shapes = shapes_of_all_kinds();
  std::size_t calls = 1;                       // a step, of a part of the parameters each
  std::vector<float> loss_scales = {1, 1, 1};  // by step
  // Changes the values of a rank before a step, where there is any.
  std::function<void(std::size_t step, std::uint32_t rank, Parameters& own)> spoil = {};

  static std::uint64_t key(std::size_t parameter);
  // What one of the calls takes.
  std::span<const Gradient> part(std::span<const Gradient> gradients, std::size_t call) const;
  // By step and rank: gradients of few directions that ranks and steps share, and noise.
  std::vector<std::vector<Parameters>> values() const;
};

// What is seen of it: values by step, rank and parameter, and what ranks remember in the end.
struct RouteOutcome {
  explicit RouteOutcome(const RouteJob& job)
      : values(job.loss_scales.size(), std::vector<Parameters>(job.ranks)), memory(job.ranks) {}
  std::vector<std::vector<Parameters>> values;
  std::vector<std::vector<MemoryEntry>> memory;
};

// From step `begin` on; each rank first remembers `memory`, where there is any.
RouteOutcome on_cpu(const RouteJob& job, std::size_t begin = 0,
                    const std::vector<std::vector<MemoryEntry>>& memory = {});
// With so many channels, which steps take in turn.
RouteOutcome on_device(const RouteJob& job, std::size_t channels = 1, std::size_t begin = 0,
                       const std::vector<std::vector<MemoryEntry>>& memory = {});

// The same bits, from step `begin` on.
void expect_same(const RouteJob& job, const RouteOutcome& got, const RouteOutcome& expected,
                 std::size_t begin = 0);

// One rank on the device. Parameters lie in a row, as in a bucket, at the alignment of their type
// only.
class RouteRank {
 public:
  RouteRank(const RouteJob& job, const std::vector<cuda::StreamTransport*>& channels);
  ~RouteRank();

  cuda::RouteMemory& memory() { return *memory_; }
  cuda::DeviceCollective& sum() { return *sums_.front(); }
  std::vector<Gradient>& gradients() { return gradients_; }
  cudaStream_t stream() const { return streams_.front(); }

  Status run(std::size_t step, const Parameters& own, Parameters& summed);

 private:
  const RouteJob job_;
  const cudaStream_t home_;
  cuda::RouteMemories memories_;
  cuda::RouteMemory* memory_ = nullptr;                        // of the route
  std::vector<std::unique_ptr<cuda::DeviceCollective>> sums_;  // by channel
  std::vector<cudaStream_t> streams_;
  void* room_ = nullptr;
  std::vector<Gradient> gradients_;
};

// Calls work(rank, its transports) on a thread a rank.
void on_device_ranks(
    std::uint32_t ranks, std::size_t channels,
    const std::function<void(std::uint32_t, const std::vector<cuda::StreamTransport*>&)>& work);

}  // namespace nf::test
