// The runtime of one model on one rank. It reduces the buckets of a model over all ranks, each
// parameter along its route, monitors the result, and decides the routes of the next steps
// identically on every rank (docs/runtime.md).
//
//   auto fabric = Fabric::create(transport, engine, {.profile = profile, .parameters = model});
//   for (const Bucket& bucket : buckets) status = (*fabric)->all_reduce(bucket);
//
// All ranks pass the same buckets in the same order. A step runs from the bucket with index 0 to
// the bucket with is_last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/binding.h"
#include "neuron_fabric/collective.h"
#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"
#include "neuron_fabric/topology.h"
#include "neuron_fabric/transport.h"

namespace nf {

// The position of one parameter's gradient in a bucket.
struct BucketSlot {
  std::uint32_t parameter = 0;  // index into the model's parameters
  std::size_t offset = 0;       // values
  std::size_t count = 0;

  friend bool operator==(const BucketSlot&, const BucketSlot&) = default;
};

enum class Reduction { kMean, kSum };

// In a reduce-scatter, the values are one row per rank, all of the same size, and each slot lies in
// one row: the slots of a parameter are its shards. Rank r gets the result of row r; its other rows
// are undefined afterwards.
struct Bucket {
  std::uint32_t index = 0;
  bool is_last = false;
  Reduction reduction = Reduction::kMean;
  Values values = {};
  std::vector<BucketSlot> slots = {};
};

// The full-precision collectives that training uses without this library: a process group or MPI.
class DenseEngine {
 public:
  virtual ~DenseEngine() = default;
  // Sums the values of all ranks in place and waits for the result.
  virtual Status sum(Values values) = 0;
  // `rows` is one row per rank, all of the same size. Replaces row r on rank r by its sum, or mean,
  // over all ranks and waits for it. Needed for Collective::kReduceScatter only.
  virtual Status reduce_scatter(Values rows, Reduction reduction);
};

enum class Mode {
  kOn,
  kShadow,  // all routes dense; reports the predicted savings and the measured error of low bits
};

enum class Admit {
  kUseful,  // low-bit routes that are safe and predicted to shorten the step
  kSafe,    // every safe low-bit route, even if it does not shorten the step
  kForced,  // the routes of the profile from the first step, without admission
};

// A decision based on measured times, valid from `from_step` until the next one.
struct MeasuredDecision {
  std::uint64_t from_step = 0;
  std::vector<std::string> useful = {};  // regions whose low-bit routes shorten the step
  bool is_over_capacity = false;         // more lines per second than the profile's reducer accepts
};

struct FabricOptions {
  Profile profile = {};
  std::vector<ModelParameter> parameters = {};
  Collective collective = Collective::kAllReduce;  // of every bucket
  Mode mode = Mode::kOn;
  Admit admit = Admit::kUseful;
  std::optional<Topology> topology = {};  // default: chosen by the numbers of ranks and hosts
  // If not 0, the default topology of an all-reduce is chosen by measurement, with buckets of about
  // this many values, unless `decisions` are given.
  std::size_t measured_bucket_values = 0;
  // The number of consecutive ranks that share a host, and so a faster link; 0 if unknown.
  // kHierarchical requires it.
  std::uint32_t host_group_size = 0;
  std::optional<double> link_gbps = {};  // replaces the measured bandwidth of the link
  // If given, these replace all decisions that measured times would make, so that a run can be
  // repeated (docs/runtime.md). In order of steps; before the first, all regions are useful.
  std::optional<std::vector<MeasuredDecision>> decisions = {};
  std::uint64_t seed = 0;
  Duration timeout = std::chrono::seconds(1800);  // without any message from a peer
  bool checksum = true;
};

class BucketWork;  // one bucket between begin() and finish(): runtime/bucket_work.h
class FabricImpl;

// all_reduce() does everything on the calling thread. To overlap the end of a step with the next
// one, call reduce_bucket() for each bucket and end_step() after the last, on another thread.
//
// To overlap buckets, too, call the parts of reduce_bucket() for every bucket in the same order:
//   begin()        on the thread that computes the gradients
//   sum_low_bit()  if has_low_bit(), on a thread of its own, while the engine sums dense()
//   finish()       when both are done
//   end_step()     after finish() of the last bucket, on the thread of sum_low_bit()
//
// All other methods may be called from any thread at any time. After a failure all calls fail with
// the same error.
class Fabric {
 public:
  // Borrows transport and engine. All ranks call it at the same time. It measures the link, the
  // codecs and, if requested, topologies, which takes about a second. Fails with kBadConfig if the
  // profile does not match the model, or the recorded decisions do not match the profile.
  static Expected<std::unique_ptr<Fabric>> create(Transport& transport, DenseEngine& engine,
                                                  FabricOptions options);
  explicit Fabric(std::unique_ptr<FabricImpl> impl);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // Replaces the values of the bucket, or this rank's row of them, by their mean, or their sum,
  // over all ranks. Ends the step if the bucket is the last one.
  Status all_reduce(const Bucket& bucket);
  // The same without the end of the step.
  Status reduce_bucket(const Bucket& bucket);

  Expected<std::unique_ptr<BucketWork>> begin(const Bucket& bucket);
  Status sum_low_bit(BucketWork& work);
  Status finish(BucketWork& work);
  Status end_step();

  // The loss of this rank in the current step, or in the last one. The monitor uses the mean over
  // all ranks.
  void observe_loss(double loss);
  // The factor that gradients are multiplied by from the next step on. Error feedback and monitored
  // norms are stored without it. All ranks that set it for a step must set the same value. A rank
  // that does not, such as a rank without data under DDP's join(), uses the value of the others. If
  // no rank sets it, it stays the same. Initially 1.
  void set_loss_scale(float scale);
  // A reducer outside the ranks has rejected data of this rank.
  void report_capacity_breach();
  // Makes all routes dense from the next step on, permanently.
  void detach();

  // Whether the gradients of the last finished step are finite; the same on every rank. Waits for
  // the device if they are on one, and for end_step() in a reduce-scatter, in which each rank has
  // only its shard of them: call end_step() before, or on another thread. False after a failure,
  // and if nothing arrives until the timeout. nullopt if the step was not monitored, which happens
  // only if no low-bit route was in use: check the gradients, which are the same on every rank.
  std::optional<bool> should_step() const;
  std::uint64_t step() const;  // the next one to begin
  const Binding& binding() const;
  Topology topology() const;
  // Device memory held in addition to the gradients; 0 if these are in host memory.
  std::size_t held_bytes() const;

  // The telemetry records since the last call, as JSON objects (docs/telemetry.md). The queue is
  // bounded and drops the oldest records first.
  std::vector<std::string> drain();

  // Checkpoints, between two steps. The state contains the decisions and running statistics, which
  // are the same on every rank, and this rank's observations for its next step. The memory is this
  // rank's route memory. Every rank loads its own.
  struct Memory {
    std::string route;
    MemoryEntry entry;
  };
  std::string state() const;
  Status load_state(std::string_view state);
  Expected<std::vector<Memory>> memory() const;
  Status load_memory(std::span<const Memory> memory);

 private:
  const std::unique_ptr<FabricImpl> impl_;
};

}  // namespace nf
