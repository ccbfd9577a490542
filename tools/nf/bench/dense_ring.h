// Emulates the dense part of a bucket, which Gloo sums while low-bit values are reduced: a ring
// all-reduce over local sockets with the CPU load of Gloo's. Most of that load is caused by small
// messages and thread switches, not by the values: 36 writes per rank and all-reduce of four ranks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf::cli {

// The sockets from each rank to the next, created before the ranks are forked. Two ranks share one
// connection.
class DenseSockets {
 public:
  static Expected<DenseSockets> create(std::uint32_t ranks);
  ~DenseSockets();
  DenseSockets(DenseSockets&& other) noexcept = default;

  int to_next(std::uint32_t rank) const { return ends_[ends_.size() == 2 ? rank : 2 * rank]; }
  int from_previous(std::uint32_t rank) const {
    return ends_[ends_.size() == 2 ? rank : (2 * rank + ends_.size() - 1) % ends_.size()];
  }
  // Closes the sockets of all ranks but `rank`, so that the end of a peer is detected.
  void close_others(std::uint32_t rank);

 private:
  DenseSockets() = default;
  std::vector<int> ends_;  // rank 0 to rank 1, rank 1 from rank 0, rank 1 to rank 2, ...
};

// Works as Gloo: one thread sums, another reads the sockets. For every message, the receiver first
// sends "receive ready" and the sender "send ready"; two messages are in flight at a time. If the
// sum thread is preempted in the middle of a send, the read thread spins until the send continues.
class DenseRing {
 public:
  // Borrows the sockets.
  DenseRing(const DenseSockets& sockets, std::uint32_t rank, std::uint32_t ranks,
            std::size_t values);
  ~DenseRing();
  DenseRing(const DenseRing&) = delete;
  DenseRing& operator=(const DenseRing&) = delete;

  void start();   // starts one all-reduce
  bool finish();  // waits for it; returns false if a rank is gone

 private:
  static constexpr std::size_t kInFlight = 2;

  void run();
  bool sum();
  bool exchange(bool should_add);
  bool wait_for(const std::uint64_t& count, std::uint64_t target);

  // Has the size of Gloo's message header.
  struct Header {
    enum class Kind : std::uint32_t { kSendReady, kReceiveReady, kData } kind = Kind::kSendReady;
    std::uint32_t half = 0;
    char rest[48] = {};
  };
  // A socket. The mutex serialises its users.
  struct End {
    const int socket;
    std::mutex mutex = {};
    Header header = {};   // currently being read
    std::size_t got = 0;  // bytes received of the header and its data
  };
  bool send(End& end, std::span<const std::byte> bytes);
  bool send(End& end, const Header& header) {
    return send(end, std::as_bytes(std::span(&header, 1)));
  }

  void read();
  std::span<std::byte> target_of(End& end);
  bool read_some(End& end);
  void handle(const Header& header);
  std::span<float> half_of(std::vector<float>& part, std::size_t half) const;

  End to_;
  End other_;
  End& from_;  // to_ if there are two ranks, otherwise other_
  const std::uint32_t ranks_;
  std::vector<float> own_;  // one of ranks_ parts
  std::vector<float> received_;
  std::uint64_t exchanged_ = 0;  // messages; used by the sum thread only

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_requested_ = false;  // protected by mutex_
  bool is_closed_ = false;     // protected by mutex_
  std::uint64_t ready_ = 0;    // messages by the next rank; protected by mutex_
  std::uint64_t arrived_ = 0;  // messages of the previous one; protected by mutex_
  std::thread read_thread_;
  std::thread sum_thread_;
};

}  // namespace nf::cli
