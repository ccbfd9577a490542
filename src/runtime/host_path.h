// The path of gradients in host memory.
#pragma once

#include <memory>

#include "runtime/bucket_path.h"
#include "runtime/host_probe.h"
#include "runtime/route_collectives.h"
#include "runtime/route_error.h"

namespace nf {

class HostPath final : public BucketPath {
 public:
  // Borrows all but the reducer and the size.
  HostPath(Transport& transport, DenseEngine& engine, const PathRequest& request,
           MemorySideReducer reducer, ProbeSize probe_size);

  bool joins_routes() const override { return true; }
  Status begin(BucketWork& work) override;
  Status sum_low_bit(BucketWork& work) override { return collectives_.sum(work); }
  Status finish(BucketWork& work) override;
  void undo(std::uint64_t step) override { collectives_.undo(step); }
  std::unique_ptr<Probe> probe() override;
  Expected<MemoryByRoute> memory(std::uint64_t step) const override {
    return collectives_.memory(step);
  }
  Status load_memory(const MemoryByRoute& memory, std::uint64_t step) override {
    return collectives_.load_memory(memory, step);
  }

 private:
  Status sample(BucketWork& work);

  // Constant after construction.
  Transport& transport_;
  const Binding& binding_;
  const Collective collective_;
  const Duration timeout_;
  const ProbeSize probe_size_;

  RouteCollectives collectives_;  // used by the thread of sum_low_bit()
  RouteErrors route_errors_;      // used by the thread of begin()
};

// Borrows both. With a name, `reducer` sums the routes that it supports.
MakePath host_path(Transport& transport, DenseEngine& engine, MemorySideReducer reducer = {},
                   ProbeSize probe_size = HostProbe::kSize);

}  // namespace nf
