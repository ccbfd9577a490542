// Ranks as members of a c10d process group that can send and receive CPU tensors, such as Gloo's.
//
// c10d's point-to-point work can only be waited for, not asked, and a wait that times out closes
// its connection for good. So every peer has three threads of its own, each blocked in one wait at
// a time: for sends, for receives, and for the notice that a peer gives up or has ended, which is
// also where its death shows first.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>
#include <vector>

#include "c10d_notice.h"
#include "c10d_transfer_queue.h"
#include "neuron_fabric/transport.h"
#include "peer_events.h"

namespace nf::torch_front {

class C10dTransport final : public Transport {
 public:
  // The group is for this transport alone. All ranks make theirs at the same time.
  explicit C10dTransport(c10::intrusive_ptr<c10d::ProcessGroup> group);

  std::string_view name() const override { return "c10d"; }
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return ranks_; }
  Duration now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }

  Status send(Transfer& transfer) override { return start(transfer, Direction::kSend); }
  Status receive(Transfer& transfer) override { return start(transfer, Direction::kReceive); }
  Status progress() override;
  Status wait(Duration deadline) override;
  void abort(const Status& why) override;

  // Tells the peers that this rank has made its part of so many steps and leaves: it is missed in
  // later ones only. Not by a rank that has given up.
  void notify_shutdown(std::uint64_t steps);
  // Ends all threads. Nothing else may be called afterwards.
  void close();

  // Of the peers: who was the first to be gone or to give up before its part of `step` was made,
  // and how that showed; ok while there is none. Waits so long for such events. Any thread.
  Status peers(std::uint64_t step, Duration patience = {}) const;

 private:
  enum class Direction { kSend, kReceive };

  Status start(Transfer& transfer, Direction direction);
  C10dTransferQueue& queue(std::uint32_t peer, Direction direction);
  // Takes what the queues have finished. Precondition of both: holds the mutex of the events.
  std::size_t settle();
  // What to say at the deadline.
  Status overdue() const;
  Status fail(Status why);

  // Constant after construction.
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const std::unique_ptr<PeerEvents> events_;

  // Of the one thread that uses the transport.
  std::vector<std::unique_ptr<C10dTransferQueue>> queues_;  // two a peer, made when first used
  std::vector<UnderWay> under_way_;
  Status failure_;
  bool has_notified_ = false;
  std::unique_ptr<C10dNotices> goodbye_;

  std::vector<std::unique_ptr<C10dWatch>> watches_;  // one a peer
};

}  // namespace nf::torch_front
