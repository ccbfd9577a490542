// Ranks as threads that share one device: an exchange is copies within its memory.
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
  // One a rank. All of them, in threads of their own, exchange as often.
  std::unique_ptr<cuda::StreamTransport> endpoint(std::uint32_t rank);

 private:
  class Endpoint;
  struct Board {
    std::vector<cuda::StreamTransfer> sends;
    cudaEvent_t ready = nullptr;  // what is to be sent is there
    cudaEvent_t done = nullptr;   // what is received has been copied
  };

  std::vector<Board> boards_;  // by rank
  std::barrier<> barrier_;
};

}  // namespace nf::test
