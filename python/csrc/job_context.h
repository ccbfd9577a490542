// The process groups and the store of an attached model.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <string>

namespace nf::torch_front {

struct JobContext {
  c10::intrusive_ptr<c10d::ProcessGroup> training;  // of DDP
  c10::intrusive_ptr<c10d::ProcessGroup> own;       // ours alone; over Gloo
  c10::intrusive_ptr<c10d::Store> store;
  std::string prefix;  // of our keys in the store
};

}  // namespace nf::torch_front
