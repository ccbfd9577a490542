// The register map of docs/cxl.md, its errors and their order.
#pragma once

namespace nf::rtl {

int test_registers();  // returns 0 on success; prints failures

}  // namespace nf::rtl
