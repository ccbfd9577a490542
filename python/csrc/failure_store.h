// The job's store, where the first rank that sees a failure writes what it saw, for all others to
// read. Any thread may call any method.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <mutex>
#include <string>

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

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string key_;
  std::mutex mutex_;
};

}  // namespace nf::torch_front
