// One sum made twice: by threads on the CPU, and in device memory over loopback.
#pragma once

#include <cstdint>
#include <string>

#include "neuron_fabric/data_type.h"
#include "neuron_fabric/topology.h"

namespace nf::test {

struct DeviceCollectiveCase {
  std::string codec;
  Topology topology = Topology::kDirect;
  std::uint32_t ranks = 2;
  std::uint32_t host_group_size = 0;  // of hierarchical
  DataType type = DataType::kFloat32;
};

// Letters, digits and underscores.
std::string name_of(const DeviceCollectiveCase& sum);

// Expects, over several steps with fresh values, that all ranks' sums on the device have the bits
// of those on the CPU. The parameters of a rank lie in a row, as in a bucket, at the alignment of
// their type only.
void expect_sums_of_the_cpu(const DeviceCollectiveCase& sum);

}  // namespace nf::test
