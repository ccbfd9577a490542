// One bucket on its way through a Fabric: its plan, and the dense segments one after the other
// where the engine cannot sum them in place.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "neuron_fabric/fabric.h"
#include "runtime/plan.h"
#include "runtime/step.h"

namespace nf {

class PlannedSum final : public BucketSum {
 public:
  PlannedSum(const Bucket& bucket, Plan plan, std::shared_ptr<Step> step);

  Values dense() override;
  bool has_low_bit() const override { return !plan_.is_dense(); }

  const Bucket& bucket() const { return bucket_; }
  const Plan& plan() const { return plan_; }
  Step& step() { return *step_; }
  // What its low-bit collectives sent and took, by region; finish() adds it to the step.
  std::vector<RegionTraffic>& traffic() { return traffic_; }
  // The values of a part of the bucket.
  Values values(std::size_t offset, std::size_t count) const;

  // Copies the dense segments together, and back.
  void gather();
  void scatter();

 private:
  // The engine takes one array: the bucket itself where nothing else is in it, else a copy.
  bool is_copied() const { return !plan_.is_dense() && !runs_.empty(); }

  const Bucket bucket_;
  const Plan plan_;
  const std::shared_ptr<Step> step_;
  const std::vector<Run> runs_;
  std::vector<RegionTraffic> traffic_;
  std::vector<std::byte> copy_;
};

}  // namespace nf
