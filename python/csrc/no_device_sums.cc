#include "device_sums.h"

namespace nf::torch_front {

const char* DeviceSums::kind() { return ""; }

std::unique_ptr<DeviceSums> DeviceSums::create(const Model&, const Surroundings&,
                                               const FabricOptions&, LookAround,
                                               std::string& why_not) {
  why_not =
      "this build of neuron_fabric has no CUDA; build one in a checkout with scripts/build.sh "
      "release_cuda nf nf_python";
  return nullptr;
}

}  // namespace nf::torch_front
