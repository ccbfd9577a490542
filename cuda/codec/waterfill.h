// The parts of waterfill's device form, each compiled by itself.
#pragma once

#include "cuda/codec/super_group.h"

namespace nf::cuda {

// `width` is that of all super-groups, or 0 where places have them.
Status fold_waterfill(unsigned width, const SuperGroupLaunch& to,
                      const device::SuperGroupFolded& in);

}  // namespace nf::cuda
