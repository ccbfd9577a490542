// Counts allocations. Replaces the global operator new of every binary that calls these functions.
#pragma once

#include <cstddef>

namespace nf::test {

// Starts or stops counting, for all threads.
void count_allocations(bool is_counting);
// The allocations counted since the binary started.
std::size_t counted_allocations();

}  // namespace nf::test
