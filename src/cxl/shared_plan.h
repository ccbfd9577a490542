// How the messages of a SharedReducer lie in its windows.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "cxl/line.h"
#include "cxl/mode.h"
#include "neuron_fabric/shared_reducer.h"

namespace nf::cxl {

// The mode that counts, or adds, messages of this codec.
std::optional<Mode> shared_mode(const Codec& codec);

constexpr std::size_t whole_lines(std::size_t bytes) { return lines_of(bytes) * kLineBytes; }

// Lines of one mode, at the same place in all windows: scales, or digits, or FP32 values.
struct SharedPart {
  Mode mode = Mode::kFp32;
  std::size_t message = 0;  // which
  std::size_t line = 0;     // the first one in a window
  std::size_t lines = 0;
  std::size_t at = 0;      // bytes: where they are in the message
  std::size_t bytes = 0;   // of them in a message of one contribution
  std::size_t sum_at = 0;  // bytes: where their sum is among the results
};

struct SharedPlan {
  std::vector<SharedPart> parts;
  std::size_t lines = 0;      // of a window
  std::size_t sum_bytes = 0;  // of all results
};

// The same on all ranks, whose messages have the same sizes.
SharedPlan plan_shared(Mode mode, std::span<const SharedMessage> messages);

}  // namespace nf::cxl
