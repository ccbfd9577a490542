// All operations on the values of buckets, in host memory or on a device. The fabric makes the
// decisions; the path carries them out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "collective/route_memory.h"
#include "collective/traffic_model.h"
#include "neuron_fabric/fabric.h"
#include "runtime/bucket_work.h"

namespace nf {

// How much a probe transfers.
struct ProbeSize {
  ParameterShape shape;              // of the matrix that Probe::sum_low_bit() reduces
  std::size_t max_bytes = 16 << 20;  // of the transfers that measure the bandwidth
};

// Synthetic transfers for benchmarking. All ranks make the same calls, and each call waits until it
// is done on this rank. Keeps its buffers until it is destroyed.
class Probe {
 public:
  virtual ~Probe() = default;

  // Every rank sends `bytes` to the next rank and receives as many from the previous one.
  virtual Status shift(std::size_t bytes) = 0;
  // The engine reduces about `bytes` of FP32 values.
  virtual Status sum_dense(std::size_t bytes) = 0;
  // Reduces one matrix of size().shape along `route`; in a reduce-scatter, each rank gets an equal
  // part. Leaves no route memory behind.
  virtual Status sum_low_bit(const std::string& route, std::uint64_t step) = 0;
  virtual ProbeSize size() const = 0;
};

class BucketPath {
 public:
  virtual ~BucketPath() = default;
  BucketPath(const BucketPath&) = delete;
  BucketPath& operator=(const BucketPath&) = delete;

  DenseEngine& engine() const { return engine_; }
  // Whether norms, samples and times of a step are available only after collect(). Otherwise
  // finish() has stored them in the bucket.
  bool is_asynchronous() const { return is_asynchronous_; }
  // Whether the routes of a bucket travel in one exchange, otherwise in one each.
  virtual bool joins_routes() const { return false; }

  // The parts of Fabric::reduce_bucket(), each on the thread that fabric.h names.
  // Samples the values if the step is monitored, divides them by the number of ranks unless that
  // follows the sum, and gathers the dense ones.
  virtual Status begin(BucketWork& work) = 0;
  virtual Status sum_low_bit(BucketWork& work) = 0;
  // Scatters the dense values, divides the results if that follows the sum, and computes norms if
  // the step is monitored.
  virtual Status finish(BucketWork& work) = 0;

  // On the thread of end_step(), if is_asynchronous(), after finish() of all buckets: waits for the
  // measurements of the step and adds them to it.
  virtual Status collect(TrainingStep&) { return {}; }

  // On the thread of end_step(), for a step that is skipped because its sums contain NaN or Inf,
  // before the low-bit sums of the next one: restores the route memory from before the step. All
  // ranks hold the same sums, so all of them undo the same steps. A no-op if the path does not
  // support it.
  virtual void undo(std::uint64_t /*step*/) {}

  virtual std::unique_ptr<Probe> probe() = 0;

  // Route memory that is not stale if `step` is the next one.
  virtual Expected<MemoryByRoute> memory(std::uint64_t step) const = 0;
  virtual Status load_memory(const MemoryByRoute& memory, std::uint64_t step) = 0;
  // Device memory held in addition to the gradients.
  virtual std::size_t held_bytes() const { return 0; }

 protected:
  // Borrows the engine, which sums the dense values.
  BucketPath(DenseEngine& engine, bool is_asynchronous)
      : engine_(engine), is_asynchronous_(is_asynchronous) {}

 private:
  DenseEngine& engine_;
  const bool is_asynchronous_;
};

// The arguments of a path. It may borrow all of them.
struct PathRequest {
  const Binding& binding;
  const FabricOptions& options;
  Topology topology = Topology::kDirect;
};
// Called again if a state with another topology is loaded, unless the options have a topology. What
// it borrows must outlive the fabric.
using MakePath = std::function<Expected<std::unique_ptr<BucketPath>>(const PathRequest&)>;

// Fabric::create() with another path. `transport` carries the messages of the runtime itself.
Expected<std::unique_ptr<Fabric>> create_fabric(Transport& transport, FabricOptions options,
                                                const MakePath& make_path);

}  // namespace nf
