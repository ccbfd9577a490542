// The layout of a region's records and slots in the device's memory, and the lines that a request
// accesses.
//
// A record consists of the planes of its line and a line with the arrivals. The slots of one line
// are adjacent and followed by its FP32 sum.
#pragma once

#include <array>
#include <cstdint>

#include "cxl/workload.h"

namespace nf::cxl {

// Consecutive lines.
struct Run {
  std::uint64_t first = 0;
  std::uint32_t count = 0;
};

struct LineAccesses {
  std::array<Run, 2> reads;   // of the record, and of a plane, slot or sum
  Run fold;                   // read once the record shows that all workers have arrived
  std::array<Run, 3> writes;  // of the record, of the slot and of the sum

  std::uint32_t lines_read() const { return reads[0].count + reads[1].count; }
};

class Layout {
 public:
  Layout(Mode mode, std::uint32_t workers, std::uint32_t lines)
      : mode_(mode),
        workers_(workers),
        pitch_(planes_of(mode, workers) + 1),
        slots_at_(std::uint64_t{lines} * pitch_) {}

  LineAccesses accesses(const Workload::Step& step, bool is_last) const {
    const std::uint64_t record = std::uint64_t{step.line} * pitch_;
    const Run tag{.first = record + pitch_ - 1, .count = 1};
    if (counts_digits(mode_)) {
      const Run all{.first = record, .count = pitch_};
      if (step.is_write) return {.reads = {all}, .fold = {}, .writes = {all}};
      return {.reads = {tag, {record + step.window - workers_, 1}}, .fold = {}, .writes = {}};
    }
    const std::uint64_t slots = slots_at_ + std::uint64_t{step.line} * (workers_ + 1);
    const Run one{.first = slots + step.window, .count = 1};  // a slot, or the sum after the slots
    if (!step.is_write) return {.reads = {tag, one}, .fold = {}, .writes = {}};
    LineAccesses accesses{.reads = {tag}, .fold = {}, .writes = {tag, one}};
    if (mode_ == Mode::kFp32 && is_last) {
      accesses.fold = {.first = slots, .count = workers_ - 1};  // all but the one being written
      accesses.writes[2] = {.first = slots + workers_, .count = 1};
    }
    return accesses;
  }

 private:
  const Mode mode_;
  const std::uint32_t workers_;
  const std::uint32_t pitch_;
  const std::uint64_t slots_at_;
};

}  // namespace nf::cxl
