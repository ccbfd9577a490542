// A whole reduction for the cycle-level model: every worker writes all its lines, then all results
// are read.
#pragma once

#include <cstdint>
#include <vector>

#include "cxl/reducer.h"
#include "neuron_fabric/status.h"

namespace nf::cxl {

// The order of writes. In step, all workers write the same line at about the same time, as the
// ranks of a job do. Apart, each worker is at a different part of the region, so no record is
// reused soon, which is the most work for the memory.
enum class WriteOrder : std::uint8_t { kInStep, kApart };

struct WorkloadOptions {
  Mode mode = Mode::kGBinary;
  std::uint32_t workers = 8;
  std::uint32_t lines = 16'384;  // per worker
  WriteOrder order = WriteOrder::kApart;
  std::uint64_t seed = 1;
};

class Workload {
 public:
  explicit Workload(const WorkloadOptions& options);

  const WorkloadOptions& options() const { return options_; }
  const RegionConfig& config() const { return config_; }

  std::uint64_t writes() const { return std::uint64_t{options_.workers} * options_.lines; }
  std::uint32_t reads_of_line() const { return reads_of_line_; }
  std::uint64_t requests() const { return writes() + reads_of_line_ * options_.lines; }

  // The target of request `number`: writes first, workers taking turns.
  struct Step {
    bool is_write = false;
    std::uint32_t window = 0;
    std::uint32_t line = 0;
  };
  Step step(std::uint64_t number) const;
  Request request(const Step& step) const;

  // Consecutive writes of which a constant share completes a line. stretches() returns the last
  // ones first.
  struct Stretch {
    double writes = 0;
    double completing = 0;
  };
  std::vector<Stretch> stretches() const;

  const Line& written(std::uint32_t worker, std::uint32_t line) const {
    return data_[std::uint64_t{worker} * options_.lines + line];
  }

  // The expected data of all reads: sums by the codec, or FP32 values added in worker order.
  Expected<std::vector<Line>> expected_reads() const;

 private:
  Expected<std::vector<Line>> expected_planes() const;
  Line added(std::uint32_t line) const;  // the FP32 values of all workers, in worker order

  const WorkloadOptions options_;
  RegionConfig config_;
  std::uint32_t reads_of_line_ = 0;
  std::vector<Line> data_;
};

}  // namespace nf::cxl
