#include "cxl/pipeline.h"

namespace nf::cxl {

Pipeline::Pipeline(Reducer& reducer, unsigned stages) : reducer_(reducer), stages_(stages) {}

Pipeline::TickResult Pipeline::tick(const Request* offered, bool answer_ready) {
  TickResult result;
  Stage& stage = stages_[last_];
  const bool advances = ready(answer_ready);
  if (answer_valid() && answer_ready) {
    result.answered = stage.answer;
    is_answered_ = true;
  }
  if (!advances) {
    if (fold_left_ > 0) --fold_left_;
    return result;
  }
  if (stage.is_held) --held_;
  stage = {};
  if (offered != nullptr) {
    // Requests stay in order, so the stage in which they take effect makes no difference.
    stage = {.is_held = true, .answer = reducer_.handle(*offered)};
    result.taken = true;
    ++held_;
  }
  last_ = last_ + 1 == stages_.size() ? 0 : last_ + 1;
  is_answered_ = false;
  fold_left_ = last().is_held ? fold_cycles(last().answer.additions) : 0;
  return result;
}

}  // namespace nf::cxl
