// A transport with injected faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "neuron_fabric/transport.h"

namespace nf {

struct Fault {
  enum class Kind : std::uint8_t {
    kDelay,     // the message, and later ones to that peer, leave after `delay`
    kDrop,      // the send completes, but the peer receives the next message instead
    kCorrupt,   // one bit of byte `byte` is flipped; a shorter message stays intact
    kTruncate,  // only the first `byte` bytes are sent
    kDie,       // the rank dies
  };

  // The number of the send or receive that the fault applies to, counted over both from 0. All
  // kinds but kDie apply to sends only: if the operation is a receive, to the next send.
  std::uint64_t operation = 0;
  Kind kind = Kind::kDie;
  Duration delay{0};
  std::size_t byte = 0;
};

// Each fault applies once. If several match a send, the first applies and the others match the
// next.
using FaultPlan = std::vector<Fault>;

// Wraps the endpoint of one rank and injects faults into its sends; the peers use plain endpoints
// and see a faulty network. A delayed message leaves during wait() or progress().
class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> wrapped, FaultPlan plan);

  std::string_view name() const override { return name_; }
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return ranks_; }
  // Stops when the rank has died.
  Duration now() const override { return wrapped_ ? wrapped_->now() : died_at_; }
  Status send(Transfer& transfer) override;
  Status receive(Transfer& transfer) override;
  Status progress() override;
  Status wait(Duration deadline) override;
  // A no-op if the rank has died.
  void abort(const Status& why) override;

 private:
  // A send that is delayed or changed.
  struct AlteredSend {
    Transfer* original = nullptr;
    Transfer actual;               // given to the wrapped transport
    std::vector<std::byte> bytes;  // of `actual`, if they differ from the original
    Duration leaves{0};
    bool has_left = false;
  };

  // Counts a send or receive. Fails if the rank has died or the transport has failed.
  Status count_operation();
  void kill();
  // Removes and returns the fault that applies to the current send.
  std::optional<Fault> take_fault();
  void alter(AlteredSend& altered, const Fault& fault);
  Status send_due();
  // Marks the originals of completed sends. Returns whether there were any.
  bool mark_done();
  Status record_failure(Status status);

  // Constant after construction.
  const std::string_view name_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;

  FaultPlan plan_;  // faults that have not applied yet
  std::uint64_t operations_ = 0;
  std::list<AlteredSend> altered_;      // in the order in which they started; addresses are stable
  std::unique_ptr<Transport> wrapped_;  // null once the rank has died
  Duration died_at_{0};
  Status failure_;
};

}  // namespace nf
