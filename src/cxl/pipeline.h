// The five stages of the controller, cycle by cycle (docs/cxl.md#the-pipeline). At most one request
// enters and one answer leaves per cycle; all stages advance together or none does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cxl/reducer.h"

namespace nf::cxl {

inline constexpr unsigned kStages = 5;

// Cycles of the FP32 adders for one line: one to read the first slot, then two per addition, during
// which the next slot is read.
constexpr std::uint64_t fold_cycles(std::uint64_t additions) {
  return additions == 0 ? 0 : 1 + 2 * additions;
}

class Pipeline {
 public:
  // Borrows the reducer, whose state changes as requests are taken.
  explicit Pipeline(Reducer& reducer, unsigned stages = kStages);

  // The handshake signals of a cycle. A write that completes an FP32 line is answered like any
  // other and then stays in the last stage until the sum is computed.
  bool answer_valid() const { return last().is_held && !is_answered_; }
  const Answer& answer() const { return last().answer; }
  bool ready(bool answer_ready) const {
    return !last().is_held || ((is_answered_ || answer_ready) && fold_left_ == 0);
  }
  bool is_empty() const { return held_ == 0; }

  // Ends a cycle: takes the offered request if the pipeline is ready, and hands over the answer if
  // the receiver is ready.
  struct TickResult {
    bool taken = false;
    std::optional<Answer> answered = {};
  };
  TickResult tick(const Request* offered, bool answer_ready);

 private:
  struct Stage {
    bool is_held = false;
    Answer answer;
  };
  const Stage& last() const { return stages_[last_]; }

  Reducer& reducer_;
  std::vector<Stage> stages_;  // a ring: on advance, the last stage becomes the first
  std::size_t last_ = 0;
  std::size_t held_ = 0;
  bool is_answered_ = false;     // the request in the last stage has been answered
  std::uint64_t fold_left_ = 0;  // cycles until the last stage has its sum
};

}  // namespace nf::cxl
