// The factories of the table in codec_registry.cc.
#pragma once

#include <memory>

#include "neuron_fabric/codec.h"

namespace nf {

using CodecResult = Expected<std::unique_ptr<Codec>>;

CodecResult make_fp32(const CodecSpec& spec);
CodecResult make_bf16(const CodecSpec& spec);
CodecResult make_fp16(const CodecSpec& spec);
CodecResult make_g_binary(const CodecSpec& spec);
CodecResult make_g_ternary(const CodecSpec& spec);
CodecResult make_waterfill(const CodecSpec& spec);
CodecResult make_dynamiq(const CodecSpec& spec);
CodecResult make_mxfp8(const CodecSpec& spec);
CodecResult make_mxfp6(const CodecSpec& spec);
CodecResult make_mxfp4(const CodecSpec& spec);
CodecResult make_thc(const CodecSpec& spec);
CodecResult make_topkc(const CodecSpec& spec);
CodecResult make_omnireduce(const CodecSpec& spec);
CodecResult make_marsit(const CodecSpec& spec);
CodecResult make_rotated(const CodecSpec& spec);

}  // namespace nf
