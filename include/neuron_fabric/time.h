// Time in the public interface.
#pragma once

#include <algorithm>
#include <chrono>

namespace nf {

using Duration = std::chrono::nanoseconds;

// The longest wait. The deadline of a longer one could overflow the clock.
inline constexpr Duration kMaxWait = std::chrono::hours(24 * 365);

constexpr Duration bounded(Duration wait) { return std::min(wait, kMaxWait); }

}  // namespace nf
