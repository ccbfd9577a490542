// The memory-side reducer, emulated in shared memory by the processes of one host. The functional
// model (docs/cxl.md) sums the messages of all ranks.
//
// Every rank writes its messages as lines into its own window, acts as the controller for its share
// of the lines, and reads the sums. For a counting codec the sums equal the codec's own merges in
// rank order, byte for byte.
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
  // Name of the job, the same on all ranks: letters, digits, '_', '-' and '.'.
  std::string name;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;  // at most 64
  // Maximum bytes of one rank's messages in one call, the same on all ranks. The shared memory
  // segment is 2 * (ranks + bits of a count + 1) times as large.
  std::size_t capacity = std::size_t{1} << 20;
  std::chrono::milliseconds timeout{30'000};  // of every wait for other ranks
};

// One message of a rank, and the buffer for the sum over all ranks.
struct SharedMessage {
  Slice slice;                     // slice.ranks must equal the reducer's ranks
  std::span<const std::byte> own;  // encoded_size(slice, 1)
  std::span<std::byte> sum;        // encoded_size(slice, ranks)
  std::uint32_t first_rank = 0;    // scales and FP32 values are added in rank order from this rank
};

// Not thread-safe. After an error every later call returns the same error, on all ranks.
class SharedReducer {
 public:
  // Waits for all ranks. Fails with kBadConfig if the options are invalid, kUnsupported if the host
  // has too little shared memory, kDisagreement if options differ between ranks or another job with
  // this name is joining, kPeerLost if rank 0 died, kDeadlineExceeded if a rank does not join.
  static Expected<std::unique_ptr<SharedReducer>> join(const SharedReducerOptions& options);

  virtual ~SharedReducer() = default;
  SharedReducer(const SharedReducer&) = delete;
  SharedReducer& operator=(const SharedReducer&) = delete;

  // Fails if sum() does not support the codec. Supported: fp32, g_binary without +majority,
  // g_ternary.
  static Status check(const Codec& codec);

  // Sums each message over all ranks. All ranks must call with the same codec and slices, otherwise
  // the call fails on all ranks with kDisagreement. Fails with kPeerLost if a rank died, and with
  // kCorruptFrame on bytes that the codec rejects.
  virtual Status sum(const Codec& codec, std::span<const SharedMessage> messages) = 0;

  // From now on rank 0 records the lines that all ranks write, as a trace for the RTL
  // (docs/cxl.md#traces), up to `max_lines` in total. A no-op on other ranks. Fails with kBadConfig
  // if the file cannot be written. If a later write fails, sum() fails on all ranks.
  virtual Status record(const std::string& path, std::uint64_t max_lines) = 0;

  // Bytes that this rank has written to the reducer and read from it, in whole lines.
  virtual std::uint64_t bytes_written() const = 0;
  virtual std::uint64_t bytes_read() const = 0;

 protected:
  SharedReducer() = default;
};

}  // namespace nf
