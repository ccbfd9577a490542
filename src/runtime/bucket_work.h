// One bucket on its way through a Fabric: its plan, and what is learnt of it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "neuron_fabric/fabric.h"
#include "runtime/gradient_norm.h"
#include "runtime/plan.h"
#include "runtime/training_step.h"

namespace nf {

class PlannedSum final : public BucketSum {
 public:
  PlannedSum(const Bucket& bucket, Plan plan, std::shared_ptr<TrainingStep> step);

  Values dense() override { return plan_.is_dense() ? bucket_.values : gathered_; }
  bool has_low_bit() const override { return !plan_.is_dense(); }

  const Bucket& bucket() const { return bucket_; }
  const Plan& plan() const { return plan_; }
  TrainingStep& step() { return *step_; }
  // The values of a part of the bucket.
  Values values(std::size_t offset, std::size_t count) const;

  // The engine takes one array: the bucket itself where nothing else is in it, else the dense runs
  // one after the other, in room that whoever gathers them gives for as long as this lives.
  std::size_t gathered_count() const;  // values; 0 where there is nothing to gather
  void set_gathered(Values gathered, std::shared_ptr<void> room);
  // Calls copy(own, gathered, size) for every run: where it lies in the bucket and where among
  // those gathered from `gathered` on, until one fails.
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

  // By region. finish() of the fabric adds them to the step.
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
  std::shared_ptr<void> room_;
};

}  // namespace nf
