// The five stages of the controller, cycle by cycle (docs/cxl.md#the-pipeline): one request in and
// one answer out a cycle at best, all stages moving together or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cxl/reducer.h"

namespace nf::cxl {

inline constexpr unsigned kStages = 5;

// That the adders of FP32 take for one line: one to read the first slot, two an addition, in which
// the next slot is read.
constexpr std::uint64_t fold_cycles(std::uint64_t additions) {
  return additions == 0 ? 0 : 1 + 2 * additions;
}

class Pipeline {
 public:
  // Borrows the reducer, whose state changes as requests are taken.
  explicit Pipeline(Reducer& reducer, unsigned stages = kStages);

  // What a cycle shows on both sides. A write that completes an FP32 line is answered like any
  // other, and then stays in the last stage until the sum is there.
  bool answer_valid() const { return last().is_held && !is_answered_; }
  const Answer& answer() const { return last().answer; }
  bool ready(bool answer_ready) const {
    return !last().is_held || ((is_answered_ || answer_ready) && fold_left_ == 0);
  }
  bool is_empty() const { return held_ == 0; }

  // The end of a cycle: takes what is offered where it is ready, and gives away its answer where
  // the other side is.
  struct Moved {
    bool taken = false;
    std::optional<Answer> answered = {};
  };
  Moved tick(const Request* offered, bool answer_ready);

 private:
  struct Stage {
    bool is_held = false;
    Answer answer;
  };
  const Stage& last() const { return stages_[last_]; }

  Reducer& reducer_;
  std::vector<Stage> stages_;  // a ring: the last stage is the first one again when all move
  std::size_t last_ = 0;
  std::size_t held_ = 0;
  bool is_answered_ = false;     // what the last stage holds
  std::uint64_t fold_left_ = 0;  // cycles until the last stage has its sum
};

}  // namespace nf::cxl
