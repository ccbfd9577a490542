// Sums gradients over all ranks, compressed as a codec says, along a topology.
//
//   auto sum = AllReduce::create(transport, {.codec = "waterfill:4", .topology =
//   Topology::kDirect}); Status status = (*sum)->run({.step = step, .gradients = gradients});
//
// Every rank calls with the same options and the same parameters in the same order. Afterwards all
// ranks hold the same bits: the owner of a part encodes its finished sum once, and everybody, the
// owner too, decodes those bytes. The result is the sum; divide it yourself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/status.h"
#include "neuron_fabric/time.h"
#include "neuron_fabric/topology.h"
#include "neuron_fabric/transport.h"

namespace nf {

// One parameter's gradient. `parameter` keys all that is random or remembered: parameter_key() of
// its qualified name.
struct Gradient {
  std::uint64_t parameter = 0;
  Values values;
  // Of a matrix; 0 for anything else. Alike on all ranks, though only powersgd sums by it.
  std::size_t rows = 0;
};

// The same for the same name everywhere.
std::uint64_t parameter_key(std::string_view name);

struct AllReduceOptions {
  std::string codec = "fp32";  // or powersgd:R, which is no codec but a smaller sum
  Topology topology = Topology::kRing;
  std::uint32_t host_group_size =
      0;  // ranks in a group of kHierarchical; divides the number of ranks
  std::uint64_t seed = 0;
  Duration timeout = std::chrono::seconds(30);  // without any transfer coming to its end
  std::size_t tile_bytes = 256 << 10;           // of a message, about; the unit of overlap
  bool checksum = true;                         // of every frame
};

struct AllReduceCall {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::span<const Gradient> gradients = {};
  // By which the gradients have been multiplied. What is remembered from call to call is free of
  // it, so it may change at any time. All ranks use the scale with the highest version among them;
  // ranks that have this version must have the same scale.
  float loss_scale = 1;
  std::uint64_t loss_scale_version = 0;
};

// What is kept of one parameter between calls, to be saved with a checkpoint.
struct Remembered {
  std::uint64_t parameter = 0;
  std::string what;      // "residual"; of powersgd "basis" and "error"
  std::size_t rows = 0;  // of powersgd's matrix, else 0
  std::vector<float> values = {};

  friend bool operator==(const Remembered&, const Remembered&) = default;
};

// Bytes this rank has sent, frames and all.
struct Traffic {
  std::uint64_t agreement = 0;
  std::uint64_t statistics = 0;
  std::uint64_t payload = 0;
  std::uint64_t sums = 0;  // of the payload: finished sums, on their way to all ranks

  std::uint64_t total() const { return agreement + statistics + payload; }
  // What it took to bring contributions together.
  std::uint64_t up() const { return total() - sums; }
};

// Belongs to one rank and one thread at a time. Keeps its buffers from call to call, and what error
// feedback and powersgd remember.
class AllReduce {
 public:
  // Borrows the transport. Fails with kBadConfig on a codec, or a group, that cannot be.
  static Expected<std::unique_ptr<AllReduce>> create(Transport& transport,
                                                     const AllReduceOptions& options);
  virtual ~AllReduce() = default;
  AllReduce() = default;
  AllReduce(const AllReduce&) = delete;
  AllReduce& operator=(const AllReduce&) = delete;

  // Sums in place. Fails with kDisagreement on all ranks, before any payload moves, where they were
  // not called alike; values are untouched then. After any other failure the values are undefined
  // and the transport has been aborted, so that nobody waits for this rank.
  Status run(const AllReduceCall& call);

  // The same without ever waiting, for whoever drives many ranks from one thread: start(), then
  // advance() whenever the transport may have made progress, until it says true.
  virtual Status start(const AllReduceCall& call) = 0;
  virtual Expected<bool> advance() = 0;
  // What advance() stands still on.
  virtual std::string waiting_for() const = 0;

  virtual Traffic traffic() const = 0;

  // What error feedback and powersgd remember. With the same memory on every rank as the ranks of
  // another AllReduce had, of the same options, further calls give the same bits as theirs would.
  // None of these while a call is under way. A call fails, and changes no memory, where a parameter
  // has another size than what is remembered of it.
  virtual std::vector<Remembered> remembered() const = 0;  // in the order of their keys
  // Replaces what is remembered of the parameters in `memory`. Fails with kInvalidArgument, naming
  // the parameter, and changes nothing, where it is not of this codec, its sizes do not fit, or it
  // is not finite.
  virtual Status remember(std::span<const Remembered> memory) = 0;
  virtual void forget(std::uint64_t parameter) = 0;
  // For a step that is not taken after all: what is remembered of a parameter is as it was before
  // the last call. Does nothing where that call changed nothing of it, or is undone already.
  // Precondition: that call succeeded. All ranks undo alike, as they do where NaN or infinity in a
  // sum says so: sums have the same bits everywhere.
  virtual void undo(std::uint64_t parameter) = 0;
  // Forgets all parameters.
  virtual void reset() = 0;

 protected:
  virtual Transport& transport() = 0;
  virtual Duration timeout() const = 0;
};

}  // namespace nf
