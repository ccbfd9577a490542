// The process groups and the store that an attached model stands on.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <string>

namespace nf::torch_front {

struct JobContext {
  c10::intrusive_ptr<c10d::ProcessGroup> training;  // what DDP itself uses
  c10::intrusive_ptr<c10d::ProcessGroup> own;       // for us alone; takes CPU tensors
  c10::intrusive_ptr<c10d::Store> store;
  std::string prefix;  // of our keys in the store
};

}  // namespace nf::torch_front
