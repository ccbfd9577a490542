// `nf bench all_reduce --transport c10d`: our all-reduce over a process group, beside the group's
// own.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <string_view>

#include "neuron_fabric/status.h"

namespace nf::torch_front {

// One rank's part; all ranks call it with the same request, as nf writes it. Rank 0 prints. Our
// sums go over `own`, which is for this call alone and outlives it on every rank, the others over
// `training`, as those of an attached model do.
Status bench_all_reduce(const c10::intrusive_ptr<c10d::ProcessGroup>& training,
                        const c10::intrusive_ptr<c10d::ProcessGroup>& own,
                        std::string_view request);

}  // namespace nf::torch_front
