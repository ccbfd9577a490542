#include "device_backend.h"

namespace nf::torch_front {

const char* DeviceBackend::kind() { return ""; }

std::unique_ptr<DeviceBackend> DeviceBackend::create(Request, std::string& why_not) {
  why_not =
      "this build of neuron_fabric has no CUDA; build one in a checkout with scripts/build.sh "
      "release_cuda nf nf_python";
  return nullptr;
}

}  // namespace nf::torch_front
