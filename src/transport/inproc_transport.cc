#include "neuron_fabric/inproc_transport.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "transport/peer_status.h"
#include "transport/pending_transfers.h"

namespace nf {

// One mutex for all ranks, held for a few instructions at a time: bytes are copied without it.
// During a copy, both transfers are kMoving, and a rank that fails waits until its own have
// finished before it returns the buffers to its caller.
struct InprocNetwork::Shared {
  struct Rank {
    std::condition_variable changed;  // only the thread of this rank waits here
    PendingTransfers pending;
    Status departure;  // the error that peers get; ok while the rank is connected
  };

  explicit Shared(std::uint32_t count) : ranks(count) {}

  std::mutex mutex;
  // Guarded by mutex.
  std::vector<Rank> ranks;
};

namespace {

using Shared = InprocNetwork::Shared;
using Lock = std::unique_lock<std::mutex>;

class InprocTransport final : public Transport {
 public:
  InprocTransport(std::shared_ptr<Shared> shared, std::uint32_t rank)
      : shared_(std::move(shared)), rank_(rank) {}
  ~InprocTransport() override { depart(peer_lost(rank_)); }

  std::string_view name() const override { return "inproc"; }
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return static_cast<std::uint32_t>(shared_->ranks.size()); }
  Duration now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }

  Status send(Transfer& transfer) override { return start(transfer, Direction::kSend); }
  Status receive(Transfer& transfer) override { return start(transfer, Direction::kReceive); }
  Status progress() override;
  Status wait(Duration deadline) override;
  void abort(const Status& why) override;

 private:
  Shared::Rank& self() { return shared_->ranks[rank_]; }

  Status start(Transfer& transfer, Direction direction);
  void move(Lock& lock, Transfer& transfer, Direction direction, PendingTransfer& other);
  // Marks completed transfers and counts them in `done`. Fails if the peer of another one is gone.
  Status complete_finished(Lock& lock, std::size_t& done);
  Status fail(Lock& lock, Status why);
  void withdraw(Lock& lock);
  void depart(const Status& reason);

  const std::shared_ptr<Shared> shared_;
  const std::uint32_t rank_;
  Status failure_;
};

Status InprocTransport::start(Transfer& transfer, Direction direction) {
  NF_RETURN_IF_ERROR(failure_);
  Status bad = check_peer(transfer.peer, rank_, ranks());
  Lock lock(shared_->mutex);
  if (!bad.ok()) return fail(lock, std::move(bad));
  Shared::Rank& peer = shared_->ranks[transfer.peer];
  if (!peer.departure.ok()) return fail(lock, peer.departure);
  PendingTransfer* const other = peer.pending.first_waiting(rank_, opposite(direction));
  if (other != nullptr) {
    move(lock, transfer, direction, *other);
  } else {
    self().pending.add(transfer, direction);
  }
  return {};
}

void InprocTransport::move(Lock& lock, Transfer& transfer, Direction direction,
                           PendingTransfer& other) {
  const Transfer* const theirs = other.transfer;
  const bool sends = direction == Direction::kSend;
  const std::span<const std::byte> from = sends ? transfer.bytes : other.bytes;
  const std::span<std::byte> to = sends ? other.bytes : transfer.bytes;
  other.state = PendingTransfer::State::kMoving;
  lock.unlock();
  if (from.size() <= to.size() && !from.empty()) std::memcpy(to.data(), from.data(), from.size());
  lock.lock();
  // `other` may have moved in memory, but still exists: its rank waits for it.
  Shared::Rank& peer = shared_->ranks[transfer.peer];
  for (PendingTransfer* pending :
       {peer.pending.find(theirs), &self().pending.add(transfer, direction)}) {
    pending->state = PendingTransfer::State::kFinished;
    pending->size = from.size();
  }
  peer.changed.notify_one();
}

Status InprocTransport::complete_finished(Lock& lock, std::size_t& done) {
  PendingTransfers::CompletionResult result = self().pending.complete_finished();
  done = result.done;
  if (!result.problem.ok()) return fail(lock, std::move(result.problem));
  for (const PendingTransfer& pending : self().pending.all()) {
    const Shared::Rank& peer = shared_->ranks[pending.peer];
    if (pending.state == PendingTransfer::State::kWaiting && !peer.departure.ok()) {
      return fail(lock, peer.departure);
    }
  }
  return {};
}

Status InprocTransport::progress() {
  NF_RETURN_IF_ERROR(failure_);
  Lock lock(shared_->mutex);
  std::size_t done = 0;
  return complete_finished(lock, done);
}

Status InprocTransport::wait(Duration deadline) {
  NF_RETURN_IF_ERROR(failure_);
  const std::chrono::time_point<std::chrono::steady_clock> end(deadline);
  Lock lock(shared_->mutex);
  bool late = false;
  while (true) {
    std::size_t done = 0;
    NF_RETURN_IF_ERROR(complete_finished(lock, done));
    if (done > 0) return {};
    if (late) return transfer_timed_out(rank_, self().pending.peers());
    late = self().changed.wait_until(lock, end) == std::cv_status::timeout;
  }
}

void InprocTransport::abort(const Status& why) {
  depart(peer_aborted(rank_, why));
  failure_ = why;
}

Status InprocTransport::fail(Lock& lock, Status why) {
  withdraw(lock);
  failure_ = std::move(why);
  return failure_;
}

void InprocTransport::withdraw(Lock& lock) {
  self().changed.wait(lock, [this] { return !self().pending.has_moving(); });
  static_cast<void>(self().pending.complete_finished());  // an earlier failure takes precedence
  self().pending.clear();
}

// Peers get the first reason.
void InprocTransport::depart(const Status& reason) {
  Lock lock(shared_->mutex);
  withdraw(lock);
  if (!self().departure.ok()) return;
  self().departure = reason;
  for (Shared::Rank& rank : shared_->ranks) rank.changed.notify_one();
}

}  // namespace

InprocNetwork::InprocNetwork(std::uint32_t ranks) : shared_(std::make_shared<Shared>(ranks)) {}

InprocNetwork::~InprocNetwork() = default;

std::unique_ptr<Transport> InprocNetwork::endpoint(std::uint32_t rank) {
  return std::make_unique<InprocTransport>(shared_, rank);
}

}  // namespace nf
