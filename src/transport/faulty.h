// A transport with whatever goes wrong on a network, as planned.
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
    kDelay,     // the message leaves `delay` later, and what follows it to that peer behind it
    kDrop,      // the message is done here and never comes there; the next one takes its place
    kCorrupt,   // one bit of byte `byte` is flipped on the way; a shorter message is left alone
    kTruncate,  // only the first `byte` bytes go
    kDie,       // the rank is gone
  };

  // Strikes at this start of a send or receive, counted over both from 0; all but kDie can only
  // strike a send, and wait for the next one.
  std::uint64_t operation = 0;
  Kind kind = Kind::kDie;
  Duration delay{0};
  std::size_t byte = 0;
};

// Each strikes once; where several could strike a send, the first of them does and the others wait
// for the next.
using FaultPlan = std::vector<Fault>;

// One rank's end of any transport, with faults in what it sends: peers use their own ends as they
// are and see a faulty network. A delayed message leaves during wait() or progress().
class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> wrapped, FaultPlan plan);

  std::string_view name() const override { return name_; }
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return ranks_; }
  // Stands still once the rank has died.
  Duration now() const override { return wrapped_ ? wrapped_->now() : died_at_; }
  Status send(Transfer& transfer) override;
  Status receive(Transfer& transfer) override;
  Status progress() override;
  Status wait(Duration deadline) override;
  // A rank that has died tells nobody.
  void abort(const Status& why) override;

 private:
  // A send that is not passed on as it is.
  struct Altered {
    Transfer* original = nullptr;
    Transfer actual;               // what the wrapped transport sends
    std::vector<std::byte> bytes;  // of `actual`, where they are not those of the original
    Duration leaves{0};
    bool has_left = false;
  };

  // Counts a start. Fails where the rank has died or the transport failed before.
  Status count_start();
  void die();
  // The fault for a send that starts now.
  std::optional<Fault> strike();
  void alter(Altered& altered, const Fault& fault);
  Status send_due();
  // Marks the originals of what is done.
  bool mark_done();
  Status keep(Status status);

  // Constant after construction.
  const std::string_view name_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;

  FaultPlan plan_;  // what is still to strike
  std::uint64_t starts_ = 0;
  std::list<Altered> altered_;          // in the order of their starts; none moves in memory
  std::unique_ptr<Transport> wrapped_;  // null once the rank has died
  Duration died_at_{0};
  Status failure_;
};

}  // namespace nf
