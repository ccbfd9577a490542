// The dense part of a bucket on its way while low bits are summed: a ring over local sockets that
// keeps the cores as busy as Gloo's does. A core's time goes into its many small messages and their
// threads more than into the values: 36 writes a rank in a sum of four ranks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf::cli {

// The sockets from each rank to the next, made before the ranks are processes of their own. Two
// ranks share one.
class DenseSockets {
 public:
  static Expected<DenseSockets> create(std::uint32_t ranks);
  ~DenseSockets();
  DenseSockets(DenseSockets&& other) noexcept = default;

  int to_next(std::uint32_t rank) const { return ends_[ends_.size() == 2 ? rank : 2 * rank]; }
  int from_previous(std::uint32_t rank) const {
    return ends_[ends_.size() == 2 ? rank : (2 * rank + ends_.size() - 1) % ends_.size()];
  }
  // Closes all others, so that a rank that is gone is noticed.
  void keep(std::uint32_t rank);

 private:
  DenseSockets() = default;
  std::vector<int> ends_;  // of rank 0 to rank 1, of rank 1 from rank 0, of rank 1 to rank 2 ...
};

// As Gloo: one thread sums, another reads the sockets for it; of every message, of which two are
// under way at a time, the receiver says that it is ready and the sender that there is one. Where
// the one that sums is put off in the middle of a send, the other spins until it goes on.
class DenseRing {
 public:
  // Borrows the sockets.
  DenseRing(const DenseSockets& sockets, std::uint32_t rank, std::uint32_t ranks,
            std::size_t values);
  ~DenseRing();
  DenseRing(const DenseRing&) = delete;
  DenseRing& operator=(const DenseRing&) = delete;

  void start();   // one sum
  bool finish();  // waits until it is done; false where it never will be: some rank is gone

 private:
  static constexpr std::size_t kUnderWay = 2;

  void run();
  bool sum();
  bool pass(bool is_to_be_added);
  bool wait_for(const std::uint64_t& count, std::uint64_t least);

  // As long as what Gloo puts before a message.
  struct Note {
    enum class Kind : std::uint32_t { kHaveOne, kReady, kMessage } kind = Kind::kHaveOne;
    std::uint32_t half = 0;
    char rest[48] = {};
  };
  // A socket, which one thread at a time uses.
  struct End {
    const int socket;
    std::mutex mutex = {};
    Note note = {};       // that is being read
    std::size_t got = 0;  // bytes of it and its message
  };
  bool send(End& end, std::span<const std::byte> bytes);
  bool send(End& end, const Note& note) { return send(end, std::as_bytes(std::span(&note, 1))); }

  void read();
  std::span<std::byte> room_of(End& end);
  bool read_some(End& end);
  void heed(const Note& note);
  std::span<float> half_of(std::vector<float>& part, std::size_t half) const;

  End to_;
  End other_;
  End& from_;  // of two ranks, to_
  const std::uint32_t ranks_;
  std::vector<float> own_;  // one part of as many as there are ranks
  std::vector<float> received_;
  std::uint64_t passed_ = 0;  // messages, of the thread that sums

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_asked_ = false;        // protected by mutex_
  bool is_over_ = false;         // protected by mutex_
  std::uint64_t asked_for_ = 0;  // messages by the next rank; protected by mutex_
  std::uint64_t arrived_ = 0;    // messages of the previous one; protected by mutex_
  std::thread reader_;
  std::thread summer_;
};

}  // namespace nf::cli
