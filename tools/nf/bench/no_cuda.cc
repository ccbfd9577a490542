// Stubs of codec_speed_cuda.cc for a build without CUDA.
#include "nf/bench/codec_speed_cuda.h"

namespace nf::cli {
namespace {

Status no_cuda() {
  return {ErrorCode::kUnsupported, "this build has no CUDA codecs; configure it with -DNF_CUDA=ON"};
}

}  // namespace

const bool kHasCuda = false;

Expected<std::string> cuda_architecture() { return no_cuda(); }

bool has_cuda_codec(const std::string& /*spelling*/) { return false; }

Expected<std::vector<OpSpeed>> measure_codec_on_cuda(const std::string& /*spelling*/,
                                                     const GradientPair& /*gradients*/,
                                                     std::uint64_t /*count*/, int /*repeat*/,
                                                     Progress& /*progress*/) {
  return no_cuda();
}

}  // namespace nf::cli
