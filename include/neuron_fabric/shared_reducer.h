// The memory-side reducer, played in shared memory by the processes of one machine: a place where
// the messages of all ranks meet and are summed by the functional model (docs/cxl.md).
//
// Every rank writes its messages as lines into its own window; each then plays the controller for
// its share of the lines; and all read the sums. For a codec that counts they equal the codec's own
// merges in rank order, to the byte.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "neuron_fabric/codec.h"
#include "neuron_fabric/status.h"

namespace nf {

struct SharedReducerOptions {
  std::string name;  // of the job: letters, digits, '_', '-' and '.', the same on all ranks
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;  // at most 64
  // Bytes of one rank's messages in one call, the same on all ranks. Shared memory takes
  // 2 * (ranks + bits of a count + 1) times as much.
  std::size_t capacity = std::size_t{1} << 20;
  std::chrono::milliseconds timeout{30'000};  // of every wait for the others
};

// One message of a rank, and where the sum of all ranks' goes.
struct SharedMessage {
  Slice slice;                     // slice.ranks is the reducer's
  std::span<const std::byte> own;  // encoded_size(slice, 1)
  std::span<std::byte> sum;        // encoded_size(slice, ranks)
  std::uint32_t first_rank = 0;    // scales, and FP32 values, add up in rank order from this one on
};

// Not for two threads at a time. After an error every call returns that same error, on all ranks.
class SharedReducer {
 public:
  // Meets the other ranks. Fails with kBadConfig on options that cannot be, kUnsupported where the
  // machine has no room, kDisagreement where options differ or another job of this name is meeting,
  // kPeerLost where rank 0 is gone, kDeadlineExceeded where somebody does not come.
  static Expected<std::unique_ptr<SharedReducer>> join(const SharedReducerOptions& options);

  virtual ~SharedReducer() = default;
  SharedReducer(const SharedReducer&) = delete;
  SharedReducer& operator=(const SharedReducer&) = delete;

  // Whether sum() knows this codec: fp32, g_binary without +majority, g_ternary.
  static Status check(const Codec& codec);

  // Sums the messages of all ranks, one by one. All ranks call with the same codec and slices; who
  // does not is told so (kDisagreement), as is everybody else. Fails with kPeerLost where a rank is
  // gone, kCorruptFrame on bytes that the codec refuses.
  virtual Status sum(const Codec& codec, std::span<const SharedMessage> messages) = 0;

  // From now on rank 0 writes down what all ranks write, as a trace for the RTL
  // (docs/cxl.md#traces), up to so many lines of all ranks together; other ranks do nothing. Fails
  // with kBadConfig where the file cannot be written; where that shows later, sum() does, on all
  // ranks.
  virtual Status record(const std::string& path, std::uint64_t most_lines) = 0;

  // Bytes that a rank has written to the reducer, and read from it, in lines.
  virtual std::uint64_t bytes_written() const = 0;
  virtual std::uint64_t bytes_read() const = 0;

 protected:
  SharedReducer() = default;
};

}  // namespace nf
