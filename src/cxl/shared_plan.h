// The layout of the messages of a SharedReducer in its windows.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "cxl/line.h"
#include "cxl/mode.h"
#include "neuron_fabric/shared_reducer.h"

namespace nf::cxl {

// The mode that sums messages of this codec; nullopt if the codec is not supported.
std::optional<Mode> shared_mode(const Codec& codec);

constexpr std::size_t round_up_to_lines(std::size_t bytes) { return lines_of(bytes) * kLineBytes; }

// Consecutive lines of one mode, at the same place in all windows: scales, digits or FP32 values.
struct SharedPart {
  Mode mode = Mode::kFp32;
  std::size_t message = 0;  // index
  std::size_t line = 0;     // the first line in a window
  std::size_t lines = 0;
  std::size_t at = 0;      // byte offset in the message
  std::size_t bytes = 0;   // size in a message of one contribution
  std::size_t sum_at = 0;  // byte offset of the sum in the results
};

struct SharedPlan {
  std::vector<SharedPart> parts;
  std::size_t lines = 0;      // per window
  std::size_t sum_bytes = 0;  // of all results
};

// All ranks get the same plan, since their messages have the same sizes.
SharedPlan plan_shared(Mode mode, std::span<const SharedMessage> messages);

}  // namespace nf::cxl
