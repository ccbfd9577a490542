// Ranks as members of a c10d process group that can send and receive CPU tensors, such as Gloo's.
//
// c10d's point-to-point work can only be waited for, not asked, and a wait that times out closes
// its connection for good. So every peer has three threads of its own, each blocked in one wait at
// a time: for sends, for receives, and for the notice that a peer gives up, which is also where
// its death shows first.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "neuron_fabric/transport.h"

namespace nf::torch_front {

class C10dTransport final : public Transport {
 public:
  // The group is for this transport alone. All ranks make theirs at the same time.
  explicit C10dTransport(c10::intrusive_ptr<c10d::ProcessGroup> group);
  ~C10dTransport() override;

  std::string_view name() const override { return "c10d"; }
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return ranks_; }
  Duration now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }

  Status send(Transfer& transfer) override { return start(transfer, Direction::kSend); }
  Status receive(Transfer& transfer) override { return start(transfer, Direction::kReceive); }
  Status progress() override;
  Status wait(Duration deadline) override;
  void abort(const Status& why) override;

  // Ends all threads. Nothing else may be called afterwards.
  void close();

  // Of the peers: who was the first to be gone or to give up, and how that showed; ok while all are
  // there. Waits so long for such news. Any thread.
  Status peers(Duration patience = {}) const;

 private:
  enum class Direction { kSend, kReceive };
  class Lane;
  class Watch;

  // What the threads tell the user of the transport.
  struct News {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Transfer*> done;
    Status failure;               // of a transfer
    std::vector<Status> by_peer;  // gone, or gave up
    Status first;                 // of those: the others may have left because of it
  };

  Status start(Transfer& transfer, Direction direction);
  // Takes what the lanes have finished. Precondition: holds news_->mutex.
  std::size_t settle();
  Status fail(Status why);

  // Constant after construction.
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const std::unique_ptr<News> news_;

  // Of the one thread that uses the transport.
  std::vector<std::unique_ptr<Lane>> lanes_;  // two a peer, made when first used
  std::vector<Transfer*> under_way_;
  Status failure_;
  bool has_told_ = false;

  std::vector<std::unique_ptr<Watch>> watches_;  // one a peer
};

}  // namespace nf::torch_front
