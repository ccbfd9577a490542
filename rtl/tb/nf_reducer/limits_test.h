// The limits of counters, in a device built with small limits.
#pragma once

#include <cstdint>

namespace nf::rtl {

// Returns 0 on success; prints failures.
int test_limits(std::uint64_t last_generation, std::uint64_t max_errors);

}  // namespace nf::rtl
