#include "cxl/pipeline.h"

namespace nf::cxl {

Pipeline::Pipeline(Reducer& reducer, unsigned stages) : reducer_(reducer), stages_(stages) {}

Pipeline::Moved Pipeline::tick(const Request* offered, bool answer_ready) {
  Moved moved;
  if (!ready(answer_ready)) {
    if (fold_left_ > 0) --fold_left_;
    return moved;
  }
  Stage& stage = stages_[last_];
  if (stage.is_held) {
    moved.answered = stage.answer;
    --held_;
  }
  stage = {};
  if (offered != nullptr) {
    // Requests stay in order, so that it makes no difference in which stage they take effect.
    stage = {.is_held = true, .answer = reducer_.handle(*offered)};
    moved.taken = true;
    ++held_;
  }
  last_ = last_ + 1 == stages_.size() ? 0 : last_ + 1;
  if (last().is_held) fold_left_ = std::uint64_t{kFp32AdderCycles} * last().answer.additions;
  return moved;
}

}  // namespace nf::cxl
