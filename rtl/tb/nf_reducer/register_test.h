// The register map of docs/cxl.md, its errors and their order.
#pragma once

#include "line.h"

namespace nf::rtl {

// The device has these limits. Returns 0 on success; prints failures.
int test_registers(const Limits& limits);

}  // namespace nf::rtl
