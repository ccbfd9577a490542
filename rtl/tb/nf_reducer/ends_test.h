// Where counts end: in a device that is built with small ends.
#pragma once

#include <cstdint>

namespace nf::rtl {

// 0 where all is well; prints what is not.
int test_ends(std::uint64_t last_generation, std::uint64_t most_errors);

}  // namespace nf::rtl
