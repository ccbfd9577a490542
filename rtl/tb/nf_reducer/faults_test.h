// States that traffic alone does not reach: flipped bits in the store, distant generations, regions
// far apart, a reset in use.
#pragma once

namespace nf::rtl {

int test_faults();  // returns 0 on success; prints failures

}  // namespace nf::rtl
