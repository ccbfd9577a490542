// The parts of rotated on the device that are compiled separately.
#pragma once

#include "cuda/codec/super_group.h"

namespace nf::cuda {

// `width` is the width of all super-groups, or 0 if widths are chosen. `encodes`: fold_encode,
// otherwise fold_add.
Status fold_rotated(unsigned width, const SuperGroupLaunch& to, const device::SuperGroupFolded& in,
                    bool encodes);

}  // namespace nf::cuda
