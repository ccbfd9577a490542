// The register map of docs/cxl.md, its refusals and their order.
#pragma once

namespace nf::rtl {

int test_registers();  // 0 where all is well; prints what is not

}  // namespace nf::rtl
