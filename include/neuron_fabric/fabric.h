// The runtime of one model on one rank: averages its buckets over all ranks, each parameter along
// the route that its binding and the admission of the moment give it, watches what comes out, and
// decides what comes next, the same on every rank (docs/runtime.md).
//
//   auto fabric = Fabric::create(transport, engine, {.profile = profile, .parameters = model});
//   for (const Bucket& bucket : buckets) status = (*fabric)->all_reduce(bucket);
//
// Every rank gives the same buckets in the same order. A step is the buckets from one with index 0
// to one that is the last.
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
#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"
#include "neuron_fabric/topology.h"
#include "neuron_fabric/transport.h"

namespace nf {

// Where one parameter's gradient lies in a bucket.
struct BucketSlot {
  std::uint32_t parameter = 0;  // index into the model's parameters
  std::size_t offset = 0;       // values
  std::size_t count = 0;

  friend bool operator==(const BucketSlot&, const BucketSlot&) = default;
};

struct Bucket {
  std::uint32_t index = 0;
  bool is_last = false;
  Values values;
  std::vector<BucketSlot> slots = {};
};

// The engine that training runs on without us: its own all-reduce, at full precision.
class DenseEngine {
 public:
  virtual ~DenseEngine() = default;
  // Adds up the values of all ranks in place, and waits for it.
  virtual Status sum(Values values) = 0;
};

enum class Mode {
  kOn,
  kShadow,  // everything dense; what low bits would have gained and lost is reported
};

enum class Admit {
  kUseful,  // low-bit routes that are safe and predicted to shorten the step
  kSafe,    // every safe low-bit route, whether it pays or not
  kForced,  // the routes of the profile from the first step, without admission
};

// What measured times decide, from `from_step` until the next of these.
struct MeasuredDecision {
  std::uint64_t from_step = 0;
  std::vector<std::string> useful = {};  // regions whose low bits shorten the step
  bool is_over_capacity = false;         // more lines a second than the profile's reducer takes
};

struct FabricOptions {
  Profile profile = {};
  std::vector<ModelParameter> parameters = {};
  Mode mode = Mode::kOn;
  Admit admit = Admit::kUseful;
  std::optional<Topology> topology = {};  // otherwise by the numbers of ranks and groups
  // Consecutive ranks that share a machine, and so a faster link than the others; 0 where that is
  // not known. kHierarchical needs it.
  std::uint32_t host_group_size = 0;
  std::optional<double> link_gbps = {};  // prices another link than the one measured
  // If given, these replace everything that measured times would decide, so that a run can be
  // repeated (docs/runtime.md). In order of steps; before the first, all regions are useful.
  std::optional<std::vector<MeasuredDecision>> decisions = {};
  std::uint64_t seed = 0;
  Duration timeout = std::chrono::seconds(1800);  // without any sign of life from a peer
  bool checksum = true;
  // Where not empty, g_binary and g_ternary are summed by the memory-side reducer that the ranks,
  // all of one machine, play in shared memory of this name (docs/cxl.md).
  std::string shared_reducer = {};
  // Where not empty, rank 0 writes the first lines of that reducer's gradients to this file.
  std::string record_lines = {};
};

// One bucket on its way, between begin() and finish(). Borrows the bucket's values.
class BucketSum {
 public:
  virtual ~BucketSum() = default;
  // What the engine has to sum: the whole bucket, or its dense segments one after the other; empty
  // where there are none.
  virtual Values dense() = 0;
  virtual bool has_low_bit() const = 0;
};

// all_reduce() does everything on the calling thread. Whoever overlaps calls the parts instead, for
// every bucket in the same order:
//   begin()        on the thread that makes the gradients
//   sum_low_bit()  where has_low_bit(), on a thread of its own, while the engine sums dense()
//   finish()       when both are done
//   end_step()     after finish() of the last bucket, on the thread of sum_low_bit()
// Everything else may be called from any thread at any time. After a failure all calls fail alike.
class Fabric {
 public:
  // Borrows transport and engine. Measures link and codecs, in less than a second; all ranks call
  // it at the same time. Fails with kBadConfig if the profile does not fit the model, or the
  // recorded decisions do not fit the profile.
  static Expected<std::unique_ptr<Fabric>> create(Transport& transport, DenseEngine& engine,
                                                  FabricOptions options);
  virtual ~Fabric() = default;
  Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // Replaces the values of the bucket by their mean over all ranks.
  Status all_reduce(const Bucket& bucket);

  virtual Expected<std::unique_ptr<BucketSum>> begin(const Bucket& bucket) = 0;
  virtual Status sum_low_bit(BucketSum& bucket) = 0;
  virtual Status finish(BucketSum& bucket) = 0;
  virtual Status end_step() = 0;

  // This rank's loss of the step under way, or of the last one. The mean over ranks is watched.
  virtual void observe_loss(double loss) = 0;
  // What the gradients are multiplied by from the next step on; error feedback and the watched
  // norms are free of it. Ranks that have set it for a step must have set the same. A rank that has
  // not, as one without data under DDP's join(), takes that of the others; if no rank has, the last
  // one stays. 1 at first.
  virtual void set_loss_scale(float scale) = 0;
  // A reducer outside the ranks has refused this rank's work.
  virtual void report_capacity_breach() = 0;
  // From the next step on everything is dense, for good.
  virtual void detach() = 0;

  // Whether the gradients of the last finished step are finite; the same on every rank. Waits for
  // the device where they lie there. False after a failure. Nothing
  // where it was not watched, since nothing travels at low bits: look at the gradients yourself,
  // which are the same on every rank, too.
  virtual std::optional<bool> should_step() const = 0;
  virtual std::uint64_t step() const = 0;  // the one that begins next
  virtual const Binding& binding() const = 0;
  virtual Topology topology() const = 0;
  // Device memory that the runtime holds beside the gradients; 0 where they lie in host memory.
  virtual std::size_t held_bytes() const = 0;

  // What happened since the last call: JSON objects, as docs/telemetry.md has them. Keeps a bounded
  // number; the oldest are lost first.
  virtual std::vector<std::string> drain() = 0;

  // To go on elsewhere. The text holds the decisions and running statistics, the same on every
  // rank, and what this rank has observed for its next step; the memory is what this rank's error
  // feedback keeps. Every rank loads its own. Both between two steps.
  struct Memory {
    std::string route;
    Remembered remembered;
  };
  virtual std::string state() const = 0;
  virtual Status load_state(std::string_view state) = 0;
  virtual Expected<std::vector<Memory>> memory() const = 0;
  virtual Status load_memory(std::span<const Memory> memory) = 0;

 protected:
  virtual DenseEngine& engine() = 0;
  // What all calls fail with from now on: `why`, or what failed before.
  virtual Status remember_failure(Status why) = 0;
};

}  // namespace nf
