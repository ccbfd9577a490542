// Stubs of nccl.cc for a build without CUDA or NCCL.
#include "nf/bench/nccl.h"

namespace nf::cli {

const bool kHasNccl = false;

Expected<std::shared_ptr<NcclBench>> NcclBench::create(Transport& /*rendezvous*/) {
  return Status(ErrorCode::kUnsupported,
                "this build has no NCCL; install nccl.h and configure with -DNF_CUDA=ON");
}

}  // namespace nf::cli
