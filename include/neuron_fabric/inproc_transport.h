// Ranks as threads of one process. A message is copied once, from the sender's buffer to the
// receiver's, by the second of the two to start its transfer; a send is done once it has been
// received.
#pragma once

#include <cstdint>
#include <memory>

#include "neuron_fabric/transport.h"

namespace nf {

// Creates the endpoints of one network. They may outlive it.
class InprocNetwork {
 public:
  // Precondition: ranks >= 1.
  explicit InprocNetwork(std::uint32_t ranks);
  ~InprocNetwork();

  // Precondition: rank < ranks; called once per rank. Destroying the endpoint simulates a crash of
  // the rank: peers that wait for it, now or later, fail with kPeerLost. Completed transfers stay
  // completed.
  std::unique_ptr<Transport> endpoint(std::uint32_t rank);

  struct Shared;

 private:
  std::shared_ptr<Shared> shared_;  // owned jointly with the endpoints
};

}  // namespace nf
