// Shares the first failure of a job through its store: the first rank that detects one writes its
// message, and all others read it. Thread-safe. No method waits long for an unresponsive store.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace nf::torch_front {

class FailureStore {
 public:
  // Keys begin with `prefix`, which is the same on all ranks and unique to the job.
  FailureStore(c10::intrusive_ptr<c10d::Store> store, std::string prefix);

  // Writes `what` unless another rank was first, and returns the stored message. If the store does
  // not answer, returns `what`.
  std::string report(const std::string& what);

  // The reported message; empty if there is none or the store does not answer.
  std::string read();

  // Records that `rank` is alive and waits for other ranks in `step`, until
  // clear_acknowledgement().
  void acknowledge(std::uint32_t rank, std::uint64_t step);
  void clear_acknowledgement(std::uint32_t rank);
  // The ranks that have acknowledged neither `step` nor the previous step, which some ranks may
  // have completed and others not. nullopt if the store does not answer.
  std::optional<std::vector<std::uint32_t>> missing(std::uint32_t ranks, std::uint64_t step);

 private:
  std::optional<std::string> ask(std::function<std::string(c10d::Store&)> question);
  void set(const std::string& key, const std::string& value);

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string prefix_;
  const std::string key_;
  std::mutex mutex_;
  std::future<std::string> answer_;  // of the last query, if it has not been read
};

}  // namespace nf::torch_front
