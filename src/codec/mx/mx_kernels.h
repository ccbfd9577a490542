// The kernels of mxfp8, mxfp6 and mxfp4 for whole blocks (docs/codecs/mxfp.md).
#pragma once

#include <cstddef>

#include "codec/isa.h"
#include "codec/mx/mx_format.h"

namespace nf {

struct MxKernels {
  // One byte per block.
  void (*statistics)(const float* values, std::size_t blocks, std::byte* out);
  void (*encode)(MxBlocks blocks, const float* values, std::byte* wire);
  void (*decode)(MxBlocks blocks, const std::byte* wire, float* values);
  void (*decode_add)(MxBlocks blocks, const std::byte* wire, float* values);
  void (*decode_add_encode)(MxBlocks blocks, const std::byte* wire, const float* values,
                            std::byte* out);
};

// `format` is one of the three of mx_format.h.
const MxKernels& mx_reference(const MxFormat& format);
// The same, except that decode_add_encode rounds the values to elements before it adds them.
const MxKernels& mx_published(const MxFormat& format);
// Precondition: isa is one of available_isas() other than kScalar.
const MxKernels& mx_simd(Isa isa, const MxFormat& format);

}  // namespace nf
