// Transport over the Gloo backend of a c10d process group.
//
// Point-to-point work of c10d can only be waited for, not polled, and a wait that times out closes
// the connection permanently. So threads wait for transfers, and one more watches all peers: it
// receives the notice that a peer aborts or shuts down, and detects the death of a peer. The number
// of threads does not grow with the number of ranks.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>
#include <vector>

#include "c10d_notice.h"
#include "c10d_waiters.h"
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
  Status start(Transfer& transfer, Direction direction);
  // Marks completed transfers and returns their number. Precondition: the caller holds the mutex of
  // the events.
  std::size_t take_completed();
  // Gives channels without a thread their turn if the current one has lasted long enough. Returns
  // the end of the turn, or Duration::max() if every busy channel has a thread.
  Duration take_turns();
  // The error at the deadline.
  Status overdue() const;
  Status fail(Status why);

  // Constant after construction.
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  // The group's backend. Calls of its methods skip PyTorch's dispatcher.
  const c10::intrusive_ptr<c10d::Backend> backend_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const std::unique_ptr<PeerEvents> events_;

  // Used by the thread of the transport.
  std::unique_ptr<C10dWaiters> waiters_;  // null after a failure
  std::vector<PendingTransfer> pending_;
  Duration turn_{0};  // length of the current turn
  Duration turn_end_ = Duration::max();
  Status failure_;
  bool has_notified_ = false;
  std::unique_ptr<C10dNotices> shutdown_notices_;

  C10dWatch watch_;
};

}  // namespace nf::torch_front
