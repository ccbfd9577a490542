// A transport over some ranks of another one: member i is rank i of the subset.
#pragma once

#include <vector>

#include "neuron_fabric/transport.h"

namespace nf {

// Borrows `whole`, whose rank must be among `members`. Only one subset of a transport may have
// pending transfers at a time. Errors name ranks of `whole`, except for a peer that is not in the
// subset.
class SubsetTransport final : public Transport {
 public:
  SubsetTransport(Transport& whole, std::vector<std::uint32_t> members);

  std::string_view name() const override { return whole_.name(); }
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return static_cast<std::uint32_t>(members_.size()); }
  Duration now() const override { return whole_.now(); }
  Status send(Transfer& transfer) override;
  Status receive(Transfer& transfer) override;
  Status progress() override { return whole_.progress(); }
  Status wait(Duration deadline) override { return whole_.wait(deadline); }
  void abort(const Status& why) override { whole_.abort(why); }

 private:
  // Restores transfer.peer afterwards: transports read it only when a transfer starts.
  Status start(Transfer& transfer, Status (Transport::*operation)(Transfer&));

  Transport& whole_;
  const std::vector<std::uint32_t> members_;  // their ranks in whole_
  std::uint32_t rank_ = 0;
};

}  // namespace nf
