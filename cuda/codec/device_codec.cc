#include "cuda/codec/device_codec.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "cuda/codec/make_device_codecs.h"

namespace nf::cuda {
namespace {

struct Entry {
  std::string_view name;
  DeviceCodecFactory* make;
};

constexpr std::array kDeviceCodecs{
    Entry{"fp32", make_device_fp32},
    Entry{"bf16", make_device_bf16},
    Entry{"fp16", make_device_fp16},
    Entry{"g_binary", make_device_g_binary},
    Entry{"g_ternary", make_device_g_ternary},
    Entry{"waterfill", make_device_waterfill},
    Entry{"dynamiq", make_device_dynamiq},
    Entry{"mxfp8", make_device_mxfp8},
    Entry{"mxfp6", make_device_mxfp6},
    Entry{"mxfp4", make_device_mxfp4},
    Entry{"thc", make_device_thc},
    Entry{"marsit", make_device_marsit},
    Entry{"omnireduce", make_device_omnireduce},
    Entry{"topkc", make_device_topkc},
    Entry{"rotated", make_device_rotated},
};

}  // namespace

std::size_t DeviceCodec::statistics_scratch_size(const Batch& /*batch*/) const { return 0; }

Status DeviceCodec::merge(const Batch& /*batch*/, const ConstDeviceMessage& /*first*/,
                          const ConstDeviceMessage& /*second*/, const DeviceMessage& /*out*/,
                          cudaStream_t /*stream*/) const {
  return {ErrorCode::kInvalidArgument, "messages of this codec do not merge"};
}

Status DeviceCodec::fold_add(const Batch& /*batch*/, std::span<const ConstDeviceMessage> /*in*/,
                             cudaStream_t /*stream*/) const {
  return {ErrorCode::kInvalidArgument, "messages of this codec merge; they do not add to values"};
}

Expected<std::unique_ptr<DeviceCodec>> make_device_codec(const Codec& codec) {
  std::string names;
  for (const Entry& entry : kDeviceCodecs) {
    if (entry.name == codec.spec().name) return entry.make(codec);
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return Status(
      ErrorCode::kUnsupported,
      fmt::format("codec '{}' has no CUDA implementation; the codecs that have one are {}",
                  codec.spec().name, names));
}

}  // namespace nf::cuda
