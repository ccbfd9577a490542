// The factories behind the table in device_codec.cc.
#pragma once

#include <memory>

#include "cuda/codec/device_codec.h"

namespace nf::cuda {

using DeviceCodecResult = Expected<std::unique_ptr<DeviceCodec>>;

DeviceCodecResult make_device_fp32(const Codec& codec);
DeviceCodecResult make_device_bf16(const Codec& codec);
DeviceCodecResult make_device_fp16(const Codec& codec);
DeviceCodecResult make_device_g_binary(const Codec& codec);
DeviceCodecResult make_device_g_ternary(const Codec& codec);
DeviceCodecResult make_device_waterfill(const Codec& codec);
DeviceCodecResult make_device_dynamiq(const Codec& codec);
DeviceCodecResult make_device_mxfp8(const Codec& codec);
DeviceCodecResult make_device_mxfp6(const Codec& codec);
DeviceCodecResult make_device_mxfp4(const Codec& codec);
DeviceCodecResult make_device_thc(const Codec& codec);
DeviceCodecResult make_device_marsit(const Codec& codec);
DeviceCodecResult make_device_omnireduce(const Codec& codec);
DeviceCodecResult make_device_topkc(const Codec& codec);

}  // namespace nf::cuda
