#include "device_backend.h"

namespace nf::torch_front {

const char* DeviceBackend::kind() { return ""; }

const char* DeviceBackend::architectures() { return ""; }

std::unique_ptr<DeviceBackend> DeviceBackend::create(Request, std::string& why_not) {
  why_not = "this build of neuron_fabric contains no device code";
  return nullptr;
}

}  // namespace nf::torch_front
