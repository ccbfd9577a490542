// A job without training: ranks as threads, a model of a few parameters, buckets of random
// gradients, and a Fabric per rank.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "neuron_fabric/fabric.h"
#include "neuron_fabric/reduce_scatter.h"

namespace nf::test {

// An engine that uses the library's own dense all-reduce on the same transport.
class OwnDenseEngine final : public DenseEngine {
 public:
  explicit OwnDenseEngine(Transport& transport);
  Status sum(Values values) override;
  Status reduce_scatter(Values rows, Reduction reduction) override;

 private:
  Transport& transport_;
  std::unique_ptr<AllReduce> all_reduce_;
  std::unique_ptr<ReduceScatter> reduce_scatter_;
  std::uint64_t calls_ = 0;
};

// Reduces a bucket in host memory by a reduce-scatter: `reduce` gets its values as one row per
// rank, in the layout of FSDP2, which is every rank's part of each slot, padded to one size. Then
// `gather` exchanges the results.
Status reduce_rows(const Transport& transport, OwnDenseEngine& gather, const Bucket& bucket,
                   const std::function<Status(const Bucket& rows)>& reduce);

// Fabric::create() with a small probe. Under the sanitizers the usual probe takes most of
// the time of a test, and no result of a test depends on measured times.
Expected<std::unique_ptr<Fabric>> make_fabric(Transport& transport, DenseEngine& engine,
                                              FabricOptions options);

// head.weight, head.bias, norm.weight and two blocks of the backbone.
std::vector<ModelParameter> small_model();

// Dense head, everything else on `route`, and short limits: 4 steps of warm-up, 3 of cool-down, 3
// of probation, lock-out after more than 2 fallbacks.
Profile short_profile(const std::string& route);
// Options with that profile and a timeout that suits a loaded machine.
FabricOptions short_options(const std::string& route, Admit admit = Admit::kSafe);

// One rank of a job. If the options request a reduce-scatter, its buckets have the layout of FSDP2,
// and the ranks exchange the reduced rows, so that gradients() is complete on all of them.
class FabricRank {
 public:
  FabricRank(Transport& transport, FabricOptions options);
  // For another kind of fabric: `make` creates it, `average` averages a bucket in host memory.
  using MakeFabric = std::function<Expected<std::unique_ptr<Fabric>>(FabricOptions)>;
  using Average = std::function<Status(Fabric&, const Bucket&)>;
  FabricRank(Transport& transport, FabricOptions options, const MakeFabric& make, Average average);

  Fabric& fabric() { return *fabric_; }

  // Runs one step of random gradients in two buckets. `modify` may change this rank's gradients
  // before the all-reduce; they are indexed by parameter, in model order.
  using Gradients = std::vector<std::vector<float>>;
  Status run_step(const std::function<void(Gradients&)>& modify = {});

  // The averaged gradients of the last step.
  const Gradients& gradients() const { return gradients_; }
  // The route and reason of a region in the last step record: "waterfill:4 admitted".
  std::string decision(const std::string& region);
  // All records drained so far.
  const std::vector<std::string>& records();

 private:
  Transport& transport_;
  const std::unique_ptr<OwnDenseEngine> engine_;  // null if the fabric has another engine
  std::unique_ptr<Fabric> fabric_;
  const Average average_;
  std::vector<ModelParameter> model_;
  Gradients gradients_;
  std::vector<std::string> records_;
};

// Runs `steps` steps, which must all succeed.
void run_steps(FabricRank& rank, int steps);

}  // namespace nf::test
