// Some ranks of a transport, as a transport of their own: member i of the group is its rank i.
#pragma once

#include <vector>

#include "neuron_fabric/transport.h"

namespace nf {

// Borrows `whole`, whose rank must be among `members`. Only one group of a transport may have
// transfers under way at a time. Errors name the ranks of `whole`, but for a peer that is not in
// the group.
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
  // Leaves transfer.peer as it was: transports look at it only here.
  Status start(Transfer& transfer, Status (Transport::*how)(Transfer&));

  Transport& whole_;
  const std::vector<std::uint32_t> members_;  // their ranks in whole_
  std::uint32_t rank_ = 0;
};

}  // namespace nf
