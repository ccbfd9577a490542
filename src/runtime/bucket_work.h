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
  BucketWork(const Bucket& bucket, Plan plan, std::shared_ptr<TrainingStep> step);

  // The values for the engine: the whole bucket if nothing else is in it, otherwise the gathered
  // dense values. Empty if there are none.
  Values dense() const { return plan_.is_dense() ? bucket_.values : gathered_; }
  bool has_low_bit() const { return !plan_.is_dense(); }

  const Bucket& bucket() const { return bucket_; }
  const Plan& plan() const { return plan_; }
  TrainingStep& step() { return *step_; }
  const TrainingStep& step() const { return *step_; }
  // A part of the bucket's values.
  Values values(std::size_t offset, std::size_t count) const;

  // The engine takes one array, so the dense runs of a mixed bucket are gathered into a staging
  // buffer. The path that allocates the buffer may leave its ownership here.
  std::size_t gathered_count() const;  // values; 0 if there is nothing to gather
  void set_gathered(Values gathered, std::shared_ptr<void> buffer);
  // Calls copy(own, gathered, size) for every dense run until one fails: `own` points into the
  // bucket, `gathered` into the staging buffer.
  template <typename Copy>
  Status for_each_run(void* gathered, Copy copy) const {
    auto* at = static_cast<std::byte*>(gathered);
    for (const DenseRun& run : runs_) {
      const std::size_t size = run.count * size_of(bucket_.values.type);
      NF_RETURN_IF_ERROR(copy(values(run.offset, run.count).data, at, size));
      at += size;
    }
    return {};
  }

  // By region. Fabric::finish() adds them to the step.
  std::vector<RegionTraffic>& traffic() { return traffic_; }
  std::vector<GradientNorm>& norms() { return norms_; }

 private:
  const Bucket bucket_;
  const Plan plan_;
  const std::shared_ptr<TrainingStep> step_;
  const std::vector<DenseRun> runs_;
  std::vector<RegionTraffic> traffic_;
  std::vector<GradientNorm> norms_;
  Values gathered_ = {};
  std::shared_ptr<void> buffer_;
};

}  // namespace nf
