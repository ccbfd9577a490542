// The parts of dynamiq's device form, each compiled by itself.
#pragma once

#include "cuda/codec/super_group.h"
#include "cuda/device/dynamiq.cuh"

namespace nf::cuda {

// `width` is that of all super-groups, or 0 where places have them.
Status fold_dynamiq(unsigned width, const device::DynamiqTables& tables,
                    const device::DynamiqStrata& strata, const SuperGroupLaunch& to,
                    const device::SuperGroupFolded& in);

}  // namespace nf::cuda
