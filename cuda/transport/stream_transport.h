// Sends messages between the devices of ranks, on streams: the counterpart of Transport for device
// memory. It never waits: an exchange is enqueued on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf::cuda {

struct StreamTransfer {
  std::uint32_t peer = 0;
  std::byte* bytes = nullptr;  // a send only reads them
  std::size_t size = 0;        // the same at both ends
};

// The transfers of one exchange.
struct StreamTransfers {
  std::vector<StreamTransfer> sends;
  std::vector<StreamTransfer> receives;

  void clear() {
    sends.clear();
    receives.clear();
  }
};

// One rank's end. One thread at a time calls exchange(); a second thread may call health() and
// abort() at any time. Ranks never send to themselves.
class StreamTransport {
 public:
  virtual ~StreamTransport() = default;
  StreamTransport() = default;
  StreamTransport(const StreamTransport&) = delete;
  StreamTransport& operator=(const StreamTransport&) = delete;

  virtual std::string_view name() const = 0;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t ranks() const = 0;

  // Enqueues all transfers as one exchange. Ranks that exchange with each other call it the same
  // number of times, each send has its receive in the same exchange, and between two ranks sends
  // and receives are in the same order. Transfers of size 0 are skipped.
  virtual Status exchange(std::span<const StreamTransfer> sends,
                          std::span<const StreamTransfer> receives, cudaStream_t stream) = 0;

  // The first error of any enqueued exchange so far. After an error, streams that wait for a lost
  // peer continue, received memory has undefined contents, and every call fails.
  virtual Status health() = 0;
  virtual void abort(const Status& why) = 0;
};

}  // namespace nf::cuda
