// Selects the kernel table of a *_simd.cc file for an ISA. Highway compiles such a file once per
// target, each time in a namespace of its own. CMakeLists.txt disables all other targets.
#pragma once

#include <hwy/highway.h>

#include "codec/isa.h"

#if HWY_ARCH_X86 && (HWY_TARGETS & HWY_AVX3)
#define NF_SELECT_TABLE(isa, table) ((isa) == ::nf::Isa::kAvx512 ? &N_AVX3::table : &N_AVX2::table)
#elif HWY_ARCH_X86  // built with NF_AVX512=OFF
#define NF_SELECT_TABLE(isa, table) (static_cast<void>(isa), &N_AVX2::table)
#elif HWY_ARCH_ARM
#define NF_SELECT_TABLE(isa, table) (static_cast<void>(isa), &N_NEON::table)
#endif
