// Sums gradients over all ranks, compressed by a codec, and leaves the sum of each shard with its
// owner.
//
//   const AllReduceOptions options{.codec = "waterfill:4", .topology = Topology::kDirect};
//   auto sum = ReduceScatter::create(transport, options);
//   Status status = (*sum)->run({.step = step, .shards = shards});
//
// Every rank calls with the same options and with values for all shards: the same parameters of the
// same sizes, in the same order. Afterwards shard r on rank r holds the sum, which is not encoded.
// Over kDirect, each contribution is encoded once, for its owner, which adds them in FP32. The
// result is the sum, not the mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neuron_fabric/all_reduce.h"

namespace nf {

class CodecAllReduce;

// The gradients that one rank gets the sum of: for each parameter, a part of its values. Shards may
// have different sizes and may be empty.
struct Shard {
  std::span<const Gradient> gradients = {};
};

// The key of the part of a parameter that is in a shard. Random draws and memory treat it as a
// parameter of its own, which starts at the first value of the part.
std::uint64_t shard_key(std::uint64_t parameter, std::uint32_t shard);

struct ReduceScatterCall {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::span<const Shard> shards = {};  // one per rank, by rank
  // As in AllReduceCall.
  float loss_scale = 1;
  std::uint64_t loss_scale_version = 0;
};

// Belongs to one rank and one thread at a time. Keeps its buffers and residuals from call to call.
class ReduceScatter {
 public:
  // Supports the topologies kDirect, kRing and kHierarchical, and every codec but powersgd. Fails
  // with kBadConfig for any other, or if the codec is invalid.
  static Status check(const AllReduceOptions& options);
  // Borrows the transport. Fails like check(), or if the host group size is invalid.
  static Expected<std::unique_ptr<ReduceScatter>> create(Transport& transport,
                                                         const AllReduceOptions& options);
  ~ReduceScatter();
  ReduceScatter(const ReduceScatter&) = delete;
  ReduceScatter& operator=(const ReduceScatter&) = delete;

  // Writes the sum of this rank's shard to the values of that shard; 16-bit values are rounded
  // once. The values of the other shards are undefined afterwards. If the calls of the ranks
  // differ, fails with kDisagreement on all ranks before any payload is sent and leaves all values
  // unchanged. After any other failure all values are undefined and the transport has been aborted,
  // so that no rank waits for this one.
  Status run(const ReduceScatterCall& call);

  // The non-blocking form of run(), as in AllReduce.
  Status start(const ReduceScatterCall& call);
  Expected<bool> advance();
  std::string waiting_for() const;

  Traffic traffic() const;

  // The memory of error feedback, as in AllReduce: the residuals of this rank's own encodes. An
  // entry belongs to a part of a parameter; MemoryEntry::parameter is its shard_key().
  std::vector<MemoryEntry> save_memory() const;
  Status load_memory(std::span<const MemoryEntry> memory);
  // Each applies to the parameter's parts in all shards. A rank keeps its new residuals if they and
  // its own sum are finite. It does not know the other sums: if a step is skipped because a sum
  // contains NaN or Inf, call undo() on all ranks.
  void forget(std::uint64_t parameter);
  void undo(std::uint64_t parameter);
  void reset();

 private:
  ReduceScatter(std::unique_ptr<CodecAllReduce> sum, std::uint32_t ranks, std::uint32_t positions);

  const std::unique_ptr<CodecAllReduce> sum_;
  const std::uint32_t ranks_;
  const std::uint32_t positions_;  // in a host group

  // Buffers, reused by every call.
  std::vector<Gradient> gradients_;
  std::vector<std::size_t> shards_;
};

}  // namespace nf
