// Gradients in host memory.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/bucket_path.h"
#include "runtime/route_collectives.h"
#include "runtime/route_error.h"

namespace nf {

class HostPath final : public BucketPath {
 public:
  // Borrows everything.
  HostPath(Transport& transport, DenseEngine& engine, const PathRequest& request);

  Status begin(PlannedSum& sum) override;
  Status sum_low_bit(PlannedSum& sum) override { return sums_.sum(sum); }
  Status finish(PlannedSum& sum) override;
  void undo(std::uint64_t step) override { sums_.undo(step); }
  std::unique_ptr<Probe> probe() override;
  Expected<std::vector<Fabric::Memory>> memory(std::uint64_t step) const override {
    return sums_.memory(step);
  }
  Status load_memory(std::span<const Fabric::Memory> memory, std::uint64_t step) override {
    return sums_.load_memory(memory, step);
  }

 private:
  void sample(PlannedSum& sum);

  // Constant after construction.
  Transport& transport_;
  DenseEngine& engine_;
  const Binding& binding_;
  const Duration timeout_;

  RouteCollectives sums_;     // of the thread that sums
  RouteErrors route_errors_;  // of the thread that begins buckets
};

}  // namespace nf
