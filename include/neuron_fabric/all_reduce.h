// Sums gradients over all ranks, compressed by a codec, along a topology.
//
//   const AllReduceOptions options{.codec = "waterfill:4", .topology = Topology::kDirect};
//   auto sum = AllReduce::create(transport, options);
//   Status status = (*sum)->run({.step = step, .gradients = gradients});
//
// Every rank calls with the same options and the same parameters in the same order. Afterwards all
// ranks hold the same bits: the owner of a chunk encodes its finished sum once, and all ranks, the
// owner included, decode those bytes. The result is the sum, not the mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"
#include "neuron_fabric/time.h"
#include "neuron_fabric/topology.h"
#include "neuron_fabric/transport.h"

namespace nf {

// The gradient of one parameter.
struct Gradient {
  std::uint64_t parameter =
      0;  // parameter_key() of its qualified name; keys random draws and memory
  Values values;
  std::size_t rows = 0;  // of a matrix, otherwise 0; equal on all ranks. Only powersgd uses it.
};

// A hash of the name, equal on all ranks.
std::uint64_t parameter_key(std::string_view name);

struct AllReduceOptions {
  std::string codec = "fp32";  // or powersgd:R, which sums low-rank factors instead of messages
  Topology topology = Topology::kRing;
  std::uint32_t host_group_size = 0;  // for kHierarchical; divides the number of ranks
  std::uint64_t seed = 0;
  Duration timeout = std::chrono::seconds(30);  // without any completed transfer
  std::size_t tile_bytes = 256 << 10;           // approximate message size; dense codecs: up to 4 x
  bool checksum = true;                         // in every frame
};

struct AllReduceCall {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::span<const Gradient> gradients = {};
  // The factor that the gradients have been multiplied by. Route memory is stored without it, so it
  // may change at any time. All ranks use the scale with the highest version among them; ranks with
  // this version must have the same scale.
  float loss_scale = 1;
  std::uint64_t loss_scale_version = 0;
};

// One array that an all-reduce keeps for a parameter between calls, saved with a checkpoint.
struct MemoryEntry {
  std::uint64_t parameter = 0;
  std::string kind;      // "residual"; with +rms "rms_history"; for powersgd "basis" and "error"
  std::size_t rows = 0;  // of powersgd's matrix; of "rms_history" the steps in it; otherwise 0
  std::vector<float> values = {};

  friend bool operator==(const MemoryEntry&, const MemoryEntry&) = default;
};

// Bytes that this rank has sent, frame headers included.
struct Traffic {
  std::uint64_t agreement = 0;
  std::uint64_t statistics = 0;
  std::uint64_t payload = 0;
  std::uint64_t sums = 0;  // part of the payload: finished sums, sent in the gather half

  std::uint64_t total() const { return agreement + statistics + payload; }
  // Everything but the gather half.
  std::uint64_t up() const { return total() - sums; }
};

// Belongs to one rank and one thread at a time. Keeps its buffers, residuals and powersgd factors
// from call to call.
class AllReduce {
 public:
  // Borrows the transport. Fails with kBadConfig if the codec or the host group size is invalid.
  static Expected<std::unique_ptr<AllReduce>> create(Transport& transport,
                                                     const AllReduceOptions& options);
  virtual ~AllReduce() = default;
  AllReduce() = default;
  AllReduce(const AllReduce&) = delete;
  AllReduce& operator=(const AllReduce&) = delete;

  // Sums in place. If the calls of the ranks differ, fails with kDisagreement on all ranks before
  // any payload is sent and leaves the values unchanged. After any other failure the values are
  // undefined and the transport has been aborted, so that no rank waits for this one.
  Status run(const AllReduceCall& call);

  // The non-blocking form of run(), for driving many ranks from one thread: start(), then advance()
  // whenever the transport may have made progress, until it returns true.
  virtual Status start(const AllReduceCall& call) = 0;
  virtual Expected<bool> advance() = 0;
  // What advance() waits for, for the error message of a timeout.
  virtual std::string waiting_for() const = 0;

  virtual Traffic traffic() const = 0;

  // The memory of error feedback, powersgd and RMS histories. An AllReduce with the same options
  // that loads the saved memory on every rank continues with the same bits. Do not call these while
  // a call is in progress. If the size of a parameter differs from its memory, a call fails and
  // changes no memory.
  virtual std::vector<MemoryEntry> save_memory() const = 0;  // sorted by parameter and kind
  // Replaces the memory of the parameters in `memory`. If an entry does not belong to this codec,
  // has the wrong size or contains NaN or Inf, fails with kInvalidArgument, names the parameter and
  // changes nothing.
  virtual Status load_memory(std::span<const MemoryEntry> memory) = 0;
  virtual void forget(std::uint64_t parameter) = 0;
  // For a skipped step: restores the memory of a parameter to its state before the last call. A
  // no-op if that call did not change it or has been undone already. Precondition: that call
  // succeeded, and all ranks undo the same parameters. A decision based on the sums, such as NaN or
  // Inf in them, is the same on all ranks because sums are bit-identical.
  virtual void undo(std::uint64_t parameter) = 0;
  // Deletes the memory of all parameters.
  virtual void reset() = 0;

 protected:
  // Advances a call until it is done. After a failure other than kDisagreement, aborts the
  // transport. Errors begin with the name of the collective.
  Status complete(Status started, std::string_view collective, std::uint64_t step);
  virtual Transport& transport() = 0;
  virtual Duration timeout() const = 0;
};

}  // namespace nf
