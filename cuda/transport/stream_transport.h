// Moves messages between the devices of ranks, on streams: what Transport is for host memory. It
// never waits: an exchange is put on a stream and happens when the stream comes to it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "neuron_fabric/status.h"

namespace nf::cuda {

struct StreamTransfer {
  std::uint32_t peer = 0;
  std::byte* bytes = nullptr;  // a send only reads them
  std::size_t size = 0;        // the same at both ends
};

// One rank's end. One thread at a time may use it.
class StreamTransport {
 public:
  virtual ~StreamTransport() = default;
  StreamTransport() = default;
  StreamTransport(const StreamTransport&) = delete;
  StreamTransport& operator=(const StreamTransport&) = delete;

  virtual std::string_view name() const = 0;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t ranks() const = 0;

  // All of these at once. Ranks that exchange with each other call it the same number of times,
  // each send has its receive in the same exchange, and between two ranks they come in the same
  // order. Transfers of size 0 are left out.
  virtual Status exchange(std::span<const StreamTransfer> sends,
                          std::span<const StreamTransfer> receives, cudaStream_t stream) = 0;

  // Whether everything that was put on streams has gone well so far. Once it has not, streams that
  // wait for a lost peer go on, with rubbish in the receivers' memory, and every call fails.
  virtual Status health() = 0;
  virtual void abort(const Status& why) = 0;
};

}  // namespace nf::cuda
