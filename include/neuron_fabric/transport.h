// Moves bytes between ranks and knows nothing of what is in them.
//
// Between any two ranks messages arrive whole, once, and in the order in which they were sent; the
// receiver names the peer and brings room for the size it expects, as both ends derive it from the
// plan. Nothing here blocks but wait(). That is what MPI, c10d's process groups and NCCL have in
// common: no tags, no sizes on the wire, no probing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "neuron_fabric/status.h"
#include "neuron_fabric/time.h"

namespace nf {

// One message on its way. The caller keeps it and its bytes where they are until it is done or the
// transport has failed.
struct Transfer {
  std::uint32_t peer = 0;
  std::span<std::byte> bytes;  // a send only reads them
  std::size_t size = 0;        // out, of a receive: bytes that came, at most bytes.size()
  bool is_done = false;        // out
};

// One rank's end. One thread at a time may use it. After a failure every call returns that same
// error, and the transfers that were not done never will be.
class Transport {
 public:
  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // As spelled on the command line: "inproc", "mpi".
  virtual std::string_view name() const = 0;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t ranks() const = 0;
  // The time that deadlines are counted in.
  virtual Duration now() const = 0;

  // Starts a transfer to or from transfer.peer, another rank. A send may wait for its receive.
  virtual Status send(Transfer& transfer) = 0;
  virtual Status receive(Transfer& transfer) = 0;

  // Marks as done whatever has come to its end. Fails with kPeerLost where a peer that owes us a
  // message is gone, naming it, and with kAborted where it gave up, with its reason.
  virtual Status progress() = 0;

  // progress(), until at least one transfer has become done since the last call of either. Fails
  // with kDeadlineExceeded at `deadline` (of now()); that alone leaves the transport sound.
  virtual Status wait(Duration deadline) = 0;

  // Gives up: peers that wait for this rank, now or later, fail with kAborted and this reason
  // rather than at their deadline, as far as the engine can tell them. Every later call here
  // returns `why`.
  virtual void abort(const Status& why) = 0;
};

}  // namespace nf
