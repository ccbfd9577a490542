// Helpers for c10d's point-to-point work.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "neuron_fabric/time.h"

namespace nf::torch_front {

// c10d has no infinite timeout.
inline constexpr auto kNoTimeout = std::chrono::duration_cast<std::chrono::milliseconds>(kMaxWait);

inline std::vector<at::Tensor> tensor_over(std::span<std::byte> bytes) {
  return {at::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size())}, at::kByte)};
}

inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace nf::torch_front
