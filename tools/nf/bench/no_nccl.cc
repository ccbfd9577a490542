// The symbols of bench_nccl.cc for a build without CUDA or NCCL.
#include "nf/bench/nccl.h"

namespace nf::cli {

const bool kHasNccl = false;

Expected<std::shared_ptr<NcclBench>> NcclBench::create(Transport& /*rendezvous*/) {
  return Status(ErrorCode::kUnsupported,
                "this build has no NCCL; configure it with -DNF_CUDA=ON where nccl.h is");
}

}  // namespace nf::cli
