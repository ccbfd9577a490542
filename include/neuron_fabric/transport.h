// Moves bytes between ranks, without interpreting them.
//
// Between any two ranks, messages arrive complete, exactly once and in the order in which they were
// sent. The receiver names the peer and provides a buffer for the expected size, which both ends
// derive from the plan. Only wait() blocks. This is the common subset of MPI, c10d's process groups
// and NCCL: no tags, no sizes on the wire, no probing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "neuron_fabric/status.h"
#include "neuron_fabric/time.h"

namespace nf {

// One message in flight. The caller keeps it and its bytes at the same address until it is done or
// the transport has failed.
struct Transfer {
  std::uint32_t peer = 0;
  std::span<std::byte> bytes;  // a send only reads them
  std::size_t size = 0;        // out, for a receive: bytes received, at most bytes.size()
  bool is_done = false;        // out
};

// The endpoint of one rank, for one thread at a time. After a failure every call returns that same
// error, and pending transfers never complete.
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
  // The clock of the deadlines.
  virtual Duration now() const = 0;

  // Starts a transfer to or from transfer.peer, another rank. A send may stay pending until the
  // matching receive has started.
  virtual Status send(Transfer& transfer) = 0;
  virtual Status receive(Transfer& transfer) = 0;

  // Marks completed transfers as done. If a peer with a pending transfer is lost, fails with
  // kPeerLost and names it; if it has aborted, fails with kAborted and its reason.
  virtual Status progress() = 0;

  // Calls progress() until at least one transfer has completed since the last call of either. Fails
  // with kDeadlineExceeded at `deadline` (of now()); the transport stays usable after that error.
  virtual Status wait(Duration deadline) = 0;

  // Fails this endpoint: every later call returns `why`. Peers that wait for this rank, now or
  // later, fail with kAborted and `why` if they can be notified, otherwise at their deadline.
  virtual void abort(const Status& why) = 0;
};

}  // namespace nf
