// Transport over a c10d process group that can send and receive CPU tensors, such as Gloo.
//
// Point-to-point work of c10d can only be waited for, not polled, and a wait that times out closes
// the connection permanently. So every peer has three threads, each blocked in one wait at a time:
// for sends, for receives, and for the notice that the peer aborts or shuts down. The last one is
// also the first to detect the death of a peer.
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
  // The group must not be used by anything else. All ranks create theirs at the same time.
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

  // Notifies the peers that this rank shuts down after `steps` steps. Not after abort().
  void notify_shutdown(std::uint64_t steps);
  // Ends all threads. No other method may be called afterwards.
  void close();

  // The error of the first peer that was lost or aborted before it completed `step`; ok if there is
  // none. Waits up to `timeout` for such an event. Any thread.
  Status peers(std::uint64_t step, Duration timeout = {}) const;

 private:
  enum class Direction { kSend, kReceive };

  Status start(Transfer& transfer, Direction direction);
  C10dTransferQueue& queue(std::uint32_t peer, Direction direction);
  // Marks completed transfers and returns their number. Precondition of both: the caller holds the
  // mutex of the events.
  std::size_t take_completed();
  // The error at the deadline.
  Status overdue() const;
  Status fail(Status why);

  // Constant after construction.
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const std::unique_ptr<PeerEvents> events_;

  // Used by the thread of the transport.
  std::vector<std::unique_ptr<C10dTransferQueue>> queues_;  // two per peer, created on first use
  std::vector<PendingTransfer> pending_;
  Status failure_;
  bool has_notified_ = false;
  std::unique_ptr<C10dNotices> shutdown_notices_;

  std::vector<std::unique_ptr<C10dWatch>> watches_;  // one per peer
};

}  // namespace nf::torch_front
