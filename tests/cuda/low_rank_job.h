// A job that sums along powersgd for some steps, on the CPU and in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/device_sum.h"
#include "cuda/low_rank_memory.h"
#include "support/ranks.h"

namespace nf::test {

struct LowRankJob {
  struct Shape {
    std::size_t rows = 0;  // 0 for a vector
    std::size_t count = 0;
  };
  static Shape matrix(std::size_t rows, std::size_t cols) { return {rows, rows * cols}; }
  // Vectors, one row, fewer rows than lanes, columns that are no multiple of 16, and matrices that
  // travel as factors for many or for few terms only.
  static std::vector<Shape> shapes_of_all_kinds();

  std::uint32_t ranks = 2;
  std::uint32_t terms = 2;
  DataType type = DataType::kFloat32;
  Topology topology = Topology::kDirect;
  std::vector<Shape> shapes = shapes_of_all_kinds();
  std::vector<float> loss_scales = {1, 1, 1};  // by step
  // Changes the values of a rank before a step, where there is any.
  std::function<void(std::size_t step, std::uint32_t rank, Parameters& own)> spoil = {};

  std::string codec() const;
  static std::uint64_t key(std::size_t parameter);
  // By step and rank: gradients of few directions that ranks and steps share, and noise.
  std::vector<std::vector<Parameters>> values() const;
};

// What is seen of it: values by step, rank and parameter, and what ranks remember in the end.
struct LowRankOutcome {
  explicit LowRankOutcome(const LowRankJob& job)
      : values(job.loss_scales.size(), std::vector<Parameters>(job.ranks)), memory(job.ranks) {}
  std::vector<std::vector<Parameters>> values;
  std::vector<std::vector<Remembered>> memory;
};

LowRankOutcome on_cpu(const LowRankJob& job);
// With so many lanes, which steps take in turn. From step `begin` on; each rank first remembers
// `memory`, where there is any.
LowRankOutcome on_device(const LowRankJob& job, std::size_t lanes = 1, std::size_t begin = 0,
                         const std::vector<std::vector<Remembered>>& memory = {});

// The same bits, from step `begin` on.
void expect_same(const LowRankJob& job, const LowRankOutcome& got, const LowRankOutcome& expected,
                 std::size_t begin = 0);

// One rank on the device. Parameters lie in a row, as in a bucket, at the alignment of their type
// only.
class LowRankRank {
 public:
  LowRankRank(const LowRankJob& job, const std::vector<cuda::StreamTransport*>& lanes);
  ~LowRankRank();

  cuda::LowRankMemory& memory() { return memory_; }
  cuda::DeviceSum& sum() { return *sums_.front(); }
  std::vector<Gradient>& gradients() { return gradients_; }
  cudaStream_t stream() const { return streams_.front(); }

  Status run(std::size_t step, const Parameters& own, Parameters& summed);

 private:
  const LowRankJob job_;
  const cudaStream_t home_;
  cuda::LowRankMemory memory_;
  std::vector<std::unique_ptr<cuda::DeviceSum>> sums_;  // by lane
  std::vector<cudaStream_t> streams_;
  void* room_ = nullptr;
  std::vector<Gradient> gradients_;
};

// Calls work(rank, its transports) on a thread a rank.
void on_device_ranks(
    std::uint32_t ranks, std::size_t lanes,
    const std::function<void(std::uint32_t, const std::vector<cuda::StreamTransport*>&)>& work);

}  // namespace nf::test
