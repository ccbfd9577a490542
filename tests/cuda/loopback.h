// Ranks as threads that share one device: an exchange copies within its memory.
#pragma once

#include <barrier>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/transport/stream_transport.h"

namespace nf::test {

class LoopbackNetwork {
 public:
  explicit LoopbackNetwork(std::uint32_t ranks);
  ~LoopbackNetwork();
  // One per rank. All of them, each on its own thread, must make the same number of exchanges.
  std::unique_ptr<cuda::StreamTransport> endpoint(std::uint32_t rank);

 private:
  class Endpoint;
  struct Board {
    std::vector<cuda::StreamTransfer> sends;
    cudaEvent_t ready = nullptr;  // the bytes to send are ready
    cudaEvent_t done = nullptr;   // the received bytes are copied
  };

  std::vector<Board> boards_;  // by rank
  std::barrier<> barrier_;
};

}  // namespace nf::test
