// A small training job without training: ranks as threads, a model of a few parameters, buckets of
// random gradients, and a Fabric on every rank.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "neuron_fabric/fabric.h"

namespace nf::test {

// The engine of these jobs: our own dense all-reduce on the same transport.
class OwnDenseSum final : public DenseSum {
 public:
  explicit OwnDenseSum(Transport& transport);
  Status sum(Values values) override;

 private:
  std::unique_ptr<AllReduce> all_reduce_;
  std::uint64_t calls_ = 0;
};

// head.weight, head.bias, norm.weight and two blocks of the backbone.
std::vector<ModelParameter> small_model();

// The head dense, all else on `route`, with short limits: 4 steps of warm-up, 3 of cool-down and
// of probation, locked out after more than 2 fallbacks.
Profile short_profile(const std::string& route);
// With that profile, and patience for a loaded machine.
FabricOptions short_options(const std::string& route, Admit admit = Admit::kSafe);

// One rank of a job.
class FabricRank {
 public:
  FabricRank(Transport& transport, FabricOptions options);
  // Of another kind of fabric: how to make it, and how it averages a bucket that lies in host
  // memory.
  using MakeFabric = std::function<Expected<std::unique_ptr<Fabric>>(FabricOptions)>;
  using Average = std::function<Status(Fabric&, const Bucket&)>;
  FabricRank(Transport& transport, FabricOptions options, const MakeFabric& make, Average average);

  Fabric& fabric() { return *fabric_; }

  // One step of random gradients in two buckets. `spoil` may change this rank's gradients before
  // they are summed: by parameter, in the order of the model.
  using Gradients = std::vector<std::vector<float>>;
  Status run_step(const std::function<void(Gradients&)>& spoil = {});

  // Of the last step, after the sum.
  const Gradients& gradients() const { return gradients_; }
  // What the records say of a region at the last step: "waterfill:4 admitted".
  std::string decision(const std::string& region);
  // All drained records so far.
  const std::vector<std::string>& records();

 private:
  Transport& transport_;
  const std::unique_ptr<OwnDenseSum> engine_;  // null where the fabric has another
  std::unique_ptr<Fabric> fabric_;
  const Average average_;
  std::vector<ModelParameter> model_;
  Gradients gradients_;
  std::vector<std::string> records_;
};

// Every one of them succeeds.
void run_steps(FabricRank& rank, int steps);

}  // namespace nf::test
