// The job's store, where the first rank that sees a failure writes what it saw, for all others to
// read. Any thread may call any method; none waits long for a store that does not answer.
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
  // Keys begin with `prefix`, which all ranks share and no other job does.
  FailureStore(c10::intrusive_ptr<c10d::Store> store, std::string prefix);

  // Writes `what` unless another rank was first, and returns what stands there now. Where the store
  // cannot be reached, `what`.
  std::string report(const std::string& what);

  // What some rank has reported; empty if nothing, or where the store cannot be reached.
  std::string read();

  // That `rank` is at work, and waits for the others in `step`; and that it need not wait any more.
  void sign(std::uint32_t rank, std::uint64_t step);
  void take_back(std::uint32_t rank);
  // Those of `ranks` that have not signed for `step`, or for the one before it, which some ranks
  // may have got through and others not; nothing where the store cannot be reached.
  std::optional<std::vector<std::uint32_t>> missing(std::uint32_t ranks, std::uint64_t step);

 private:
  std::optional<std::string> ask(std::function<std::string(c10d::Store&)> question);
  void set(const std::string& key, const std::string& value);

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string prefix_;
  const std::string key_;
  std::mutex mutex_;
  std::future<std::string> answer_;  // to the last question, where it has not been taken
};

}  // namespace nf::torch_front
