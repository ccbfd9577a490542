// Compares a collective in device memory, over loopback, with the CPU's.
#pragma once

#include <cstdint>
#include <string>

#include "neuron_fabric/collective.h"
#include "neuron_fabric/data_type.h"
#include "neuron_fabric/topology.h"

namespace nf::test {

struct DeviceCollectiveCase {
  std::string codec;
  Topology topology = Topology::kDirect;
  std::uint32_t ranks = 2;
  std::uint32_t host_group_size = 0;  // for kHierarchical
  DataType type = DataType::kFloat32;
  Collective collective = Collective::kAllReduce;
};

// A test name of letters, digits and underscores.
std::string name_of(const DeviceCollectiveCase& sum);

// Expects, over several steps with new values, that all ranks' sums on the device have the bits of
// the CPU's; in a reduce-scatter over uneven_shards(), those of their own shard. The parameters of
// a rank are consecutive, as in a bucket, with only the alignment of their type. The second step
// and those after it use another buffer than the first.
void expect_same_as_cpu(const DeviceCollectiveCase& sum);

}  // namespace nf::test
