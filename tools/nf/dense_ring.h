// The dense part of a bucket on its way while low bits are summed: a ring over local sockets, by a
// thread of its own in every rank, as Gloo's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf::cli {

// The sockets from each rank to the next, made before the ranks are processes of their own.
class DenseSockets {
 public:
  static Expected<DenseSockets> create(std::uint32_t ranks);
  ~DenseSockets();
  DenseSockets(DenseSockets&& other) noexcept = default;

  int to_next(std::uint32_t rank) const { return ends_[2 * rank]; }
  int from_previous(std::uint32_t rank) const {
    return ends_[(2 * rank + ends_.size() - 1) % ends_.size()];
  }
  // Closes all others, so that a rank that is gone is noticed.
  void keep(std::uint32_t rank);

 private:
  DenseSockets() = default;
  std::vector<int> ends_;  // of rank 0 to rank 1, of rank 1 from rank 0, of rank 1 to rank 2 ...
};

class DenseRing {
 public:
  // Borrows the sockets.
  DenseRing(const DenseSockets& sockets, std::uint32_t rank, std::uint32_t ranks,
            std::size_t values);
  ~DenseRing();
  DenseRing(const DenseRing&) = delete;
  DenseRing& operator=(const DenseRing&) = delete;

  void start();   // one sum
  void finish();  // ... is done, or never will be: some rank is gone

 private:
  void run();
  bool sum();
  bool pass(std::size_t bytes);

  const int to_;
  const int from_;
  const std::uint32_t ranks_;
  std::vector<float> own_;  // one part of as many as there are ranks
  std::vector<float> received_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_asked_ = false;  // protected by mutex_
  bool is_over_ = false;   // protected by mutex_
  std::thread thread_;
};

}  // namespace nf::cli
