#include "device_sums.h"

namespace nf::torch_front {

const char* DeviceSums::kind() { return ""; }

std::unique_ptr<DeviceSums> DeviceSums::create(const Model&, const Surroundings&,
                                               const FabricOptions&, LookAround,
                                               std::string& why_not) {
  why_not = "this build of neuron_fabric has no CUDA (docs/cuda.md says how to make one)";
  return nullptr;
}

}  // namespace nf::torch_front
