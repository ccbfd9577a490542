// Where gradients lie, and all that touches their values there: host memory, or a device's. What is
// decided about them, and what follows from what they show, is the fabric's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collective/traffic_model.h"
#include "neuron_fabric/fabric.h"
#include "runtime/bucket_work.h"

namespace nf {

// Transfers and sums of nothing in particular, for whoever measures. All ranks call alike, and each
// call waits until it is done here. Keeps its room until it ends.
class Probe {
 public:
  virtual ~Probe() = default;

  // Everybody sends so many bytes to the next rank and receives as many from the one before.
  virtual Status pass_on(std::size_t bytes) = 0;
  // Of FP32 values that take so many bytes, by the engine.
  virtual Status sum_dense(std::size_t bytes) = 0;
  // Of one matrix of this shape. Leaves nothing behind in what routes remember.
  virtual Status sum_low_bit(const std::string& route, std::uint64_t step) = 0;
  virtual ParameterShape shape() const = 0;
};

class BucketPath {
 public:
  virtual ~BucketPath() = default;
  BucketPath() = default;
  BucketPath(const BucketPath&) = delete;
  BucketPath& operator=(const BucketPath&) = delete;

  // The parts of fabric.h for one bucket, each on the thread that it names.
  // Samples the values where the step is watched, divides them by the number of ranks, and brings
  // the dense ones together.
  virtual Status begin(PlannedSum& sum) = 0;
  virtual Status sum_low_bit(PlannedSum& sum) = 0;
  // Puts the dense values back and takes norms where the step is watched.
  virtual Status finish(PlannedSum& sum) = 0;

  // Whether what a bucket shows (norms, samples, times) is there only once learn() has waited for
  // it; otherwise finish() has left it in the sum.
  virtual bool learns_late() const { return false; }
  // On the thread of end_step(), for a step whose buckets are all finished: waits for what they
  // have shown and adds it to the step.
  virtual Status learn(TrainingStep&) { return {}; }

  // On the thread of end_step(), for a step whose sums are not finite, which is therefore not
  // taken, and before the next one is summed at low bits: what routes remember is as it was before
  // that step. All ranks hold the same sums and do it alike. Does nothing where a path cannot.
  virtual void undo(std::uint64_t /*step*/) {}

  virtual std::unique_ptr<Probe> probe() = 0;

  // What routes remember from step to step (fabric.h), `step` being the next one: without what is
  // older than the step before it, which would be forgotten.
  virtual Expected<std::vector<Fabric::Memory>> memory(std::uint64_t step) const = 0;
  virtual Status load_memory(std::span<const Fabric::Memory> memory, std::uint64_t step) = 0;
  // Of device memory, beside the gradients.
  virtual std::size_t held_bytes() const { return 0; }
};

// Along which low bits travel. Where nobody says: between machines only the sum of each, if several
// ranks share one and no route has error feedback, which devices do not have for that; else two
// hops, the shortest way, unless ranks are so many that their number of connections costs more than
// the hops of a tree.
Topology topology_of(const FabricOptions& options, const Profile& profile, std::uint32_t ranks);

// What a path is made for. It may borrow all of it.
struct PathRequest {
  const Binding& binding;
  const FabricOptions& options;
  Topology topology = Topology::kDirect;
};
using MakePath = std::function<Expected<std::unique_ptr<BucketPath>>(const PathRequest&)>;

}  // namespace nf
