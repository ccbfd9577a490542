// One bucket between Fabric::begin() and finish(): its plan and its measurements.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "neuron_fabric/fabric.h"
#include "runtime/gradient_norm.h"
#include "runtime/plan.h"
#include "runtime/training_step.h"

namespace nf {

// Borrows the values of the bucket.
class BucketWork {
 public:
  BucketWork(const Bucket& bucket, Plan plan, std::shared_ptr<TrainingStep> step,
             BucketRows rows = {});

  // The values for the engine: the whole bucket if nothing else is in it, otherwise the gathered
  // dense values. Empty if there are none, or if they are not gathered because they travel with the
  // low-bit routes. In a reduce-scatter, they are one row per rank.
  Values dense() const { return plan_.is_dense() ? bucket_.values : gathered_; }
  bool has_low_bit() const { return !plan_.is_dense(); }
  // Who divides a mean by the number of ranks. An all-reduce divides the values before the sum. In
  // a reduce-scatter, the engine divides a dense bucket, so that it has the bits of the wrapper
  // alone, and a mixed one is divided after the sum. The sum of FP16 values may overflow, so these
  // are divided before.
  bool divides_before_sum() const {
    return is_mean() && (!scatters() || (has_low_bit() && is_half()));
  }
  bool divides_after_sum() const { return is_mean() && scatters() && has_low_bit() && !is_half(); }
  Reduction engine_reduction() const {
    return scatters() && !has_low_bit() ? bucket_.reduction : Reduction::kSum;
  }

  const Bucket& bucket() const { return bucket_; }
  const Plan& plan() const { return plan_; }
  TrainingStep& step() { return *step_; }
  const TrainingStep& step() const { return *step_; }
  // A part of the bucket's values.
  Values values(std::size_t offset, std::size_t count) const;

  // Whether each rank gets the result of one row only.
  bool scatters() const { return rows_.count > 1; }
  std::uint32_t rows() const { return rows_.count; }
  std::uint32_t row_of(const BucketSlot& slot) const {
    return scatters() ? static_cast<std::uint32_t>(slot.offset / row_size()) : 0;
  }
  // The values that this rank gets the result of.
  Values result() const { return values(rows_.own * row_size(), row_size()); }
  // Their slots, in_parameter_order().
  std::vector<BucketSlot> result_slots() const;

  // The engine takes one array, so the dense runs of a mixed bucket are gathered into a staging
  // buffer. The path that allocates the buffer may leave its ownership here.
  std::size_t gathered_count() const;  // values of all rows; 0 if there is nothing to gather
  // Whether there are dense values that travel with the low-bit routes. The same on all ranks.
  bool joins_dense(std::size_t max_bytes = kMaxJoinedDenseBytes) const;
  void set_gathered(Values gathered, std::shared_ptr<void> buffer);
  // Calls copy(own, gathered, size) for every dense run until one fails: `own` points into the
  // bucket, `gathered` into the staging buffer.
  template <typename Copy>
  Status for_each_run(void* gathered, Copy copy) const {
    for (const DenseRun& run : dense_.runs) NF_RETURN_IF_ERROR(copy_run(run, gathered, copy));
    return {};
  }
  // The same for the runs of result().
  template <typename Copy>
  Status for_each_result_run(void* gathered, Copy copy) const {
    for (const DenseRun& run : dense_.runs) {
      if (run.row == rows_.own) NF_RETURN_IF_ERROR(copy_run(run, gathered, copy));
    }
    return {};
  }

  // By region. Fabric::finish() adds them to the step.
  std::vector<RegionTraffic>& traffic() { return traffic_; }
  std::vector<GradientNorm>& norms() { return norms_; }

 private:
  bool is_mean() const { return bucket_.reduction == Reduction::kMean; }
  bool is_half() const { return bucket_.values.type == DataType::kFloat16; }
  std::size_t row_size() const { return bucket_.values.count / rows_.count; }
  template <typename Copy>
  Status copy_run(const DenseRun& run, void* gathered, Copy copy) const {
    const std::size_t size = size_of(bucket_.values.type);
    auto* at = static_cast<std::byte*>(gathered) + (run.row * dense_.row_size + run.at) * size;
    return copy(values(run.offset, run.count).data, at, run.count * size);
  }

  const Bucket bucket_;
  const Plan plan_;
  const std::shared_ptr<TrainingStep> step_;
  const BucketRows rows_;
  const DenseRuns dense_;
  std::vector<RegionTraffic> traffic_;
  std::vector<GradientNorm> norms_;
  Values gathered_ = {};
  std::shared_ptr<void> buffer_;
};

}  // namespace nf
