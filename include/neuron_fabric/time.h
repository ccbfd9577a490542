// Time in the public interface.
#pragma once

#include <chrono>

namespace nf {

using Duration = std::chrono::nanoseconds;

}  // namespace nf
