// Ranks as threads of one process. A message is copied once, from the sender's bytes to the
// receiver's, by whichever of the two comes second; a send is done only when it has been received.
#pragma once

#include <cstdint>
#include <memory>

#include "neuron_fabric/transport.h"

namespace nf {

// Hands out the ends of one network. They live on without it.
class InprocNetwork {
 public:
  // Precondition: ranks >= 1.
  explicit InprocNetwork(std::uint32_t ranks);
  ~InprocNetwork();

  // Precondition: rank < ranks, and nobody has taken it yet. Destroying the end is what a crash of
  // that rank is: peers that wait for it, now or later, fail with kPeerLost. What was done stays
  // done.
  std::unique_ptr<Transport> endpoint(std::uint32_t rank);

  struct Shared;

 private:
  std::shared_ptr<Shared> shared_;  // with the ends
};

}  // namespace nf
