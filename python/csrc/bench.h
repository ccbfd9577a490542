// `nf bench all_reduce --transport c10d`: our all-reduce over a process group, compared with the
// group's own.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <string_view>

#include "neuron_fabric/status.h"

namespace nf::torch_front {

// All ranks call it with the same request, which nf writes. Rank 0 prints. Our all-reduces use
// `own`, which belongs to this call and outlives it on every rank; the others use `training`, as
// those of an attached model do.
Status bench_all_reduce(const c10::intrusive_ptr<c10d::ProcessGroup>& training,
                        const c10::intrusive_ptr<c10d::ProcessGroup>& own,
                        std::string_view request);

}  // namespace nf::torch_front
