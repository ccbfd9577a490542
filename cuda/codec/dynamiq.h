// The parts of dynamiq on the device that are compiled separately.
#pragma once

#include "cuda/codec/super_group.h"
#include "cuda/device/dynamiq.cuh"

namespace nf::cuda {

// `width` is the width of all super-groups, or 0 if widths are chosen. `encodes`: fold_encode,
// otherwise fold_add.
Status fold_dynamiq(unsigned width, const device::DynamiqTables& tables,
                    const device::DynamiqStrata& strata, const SuperGroupLaunch& to,
                    const device::SuperGroupFolded& in, bool encodes);

}  // namespace nf::cuda
