// Time in the public interface.
#pragma once

#include <algorithm>
#include <chrono>

namespace nf {

using Duration = std::chrono::nanoseconds;

// The longest that anybody waits: the end of a longer wait may be beyond what a clock counts.
inline constexpr Duration kLongestWait = std::chrono::hours(24 * 365);

constexpr Duration bounded(Duration wait) { return std::min(wait, kLongestWait); }

}  // namespace nf
