// The communication hook of DDP.
#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <memory>
#include <utility>

#include "ddp_bucket.h"
#include "runtime.h"

namespace nf::torch_front {

class DdpHook final : public c10d::CommHookInterface {
 public:
  explicit DdpHook(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    return runtime_->run(ddp_bucket(runtime_->model(), bucket));
  }
  at::Tensor parseHookResult(const c10::IValue& result) override { return result.toTensor(); }

 private:
  const std::shared_ptr<Runtime> runtime_;
};

}  // namespace nf::torch_front
