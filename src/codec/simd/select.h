// Picks the table of kernels that a *_simd.cc file made for one ISA. Highway compiles such a file
// once per target, each into its own namespace; these are the targets we keep (CMakeLists.txt
// disables the others), under the names of codec/isa.h.
#pragma once

#include <hwy/highway.h>

#include "codec/isa.h"

#if HWY_ARCH_X86
#define NF_SELECT_TABLE(isa, table) ((isa) == ::nf::Isa::kAvx512 ? &N_AVX3::table : &N_AVX2::table)
#elif HWY_ARCH_ARM
#define NF_SELECT_TABLE(isa, table) (static_cast<void>(isa), &N_NEON::table)
#endif
