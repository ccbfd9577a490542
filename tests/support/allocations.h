// Counts what is allocated, by an operator new of its own that comes into every binary which calls
// one of these.
#pragma once

#include <cstddef>

namespace nf::test {

// From now on, or no longer. Of all threads together.
void count_allocations(bool is_counting);
// So far, since the binary started.
std::size_t counted_allocations();

}  // namespace nf::test
