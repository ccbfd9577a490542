// The factories in the table of device_codec.cc.
#pragma once

#include <memory>

#include "cuda/codec/device_codec.h"

namespace nf::cuda {

using DeviceCodecResult = Expected<std::unique_ptr<DeviceCodec>>;

using DeviceCodecFactory = DeviceCodecResult(const Codec& codec);

DeviceCodecFactory make_device_fp32;
DeviceCodecFactory make_device_bf16;
DeviceCodecFactory make_device_fp16;
DeviceCodecFactory make_device_g_binary;
DeviceCodecFactory make_device_g_ternary;
DeviceCodecFactory make_device_waterfill;
DeviceCodecFactory make_device_dynamiq;
DeviceCodecFactory make_device_mxfp8;
DeviceCodecFactory make_device_mxfp6;
DeviceCodecFactory make_device_mxfp4;
DeviceCodecFactory make_device_thc;
DeviceCodecFactory make_device_marsit;
DeviceCodecFactory make_device_omnireduce;
DeviceCodecFactory make_device_topkc;
DeviceCodecFactory make_device_rotated;

}  // namespace nf::cuda
