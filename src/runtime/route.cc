#include "runtime/route.h"

#include "collective/route_memory.h"
#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/inproc_transport.h"

namespace nf {

Status check_route(std::string_view spelling) {
  const auto alone = InprocNetwork(1).endpoint(0);
  return AllReduce::create(*alone, {.codec = std::string(spelling)}).status();
}

Expected<bool> remembers(std::string_view spelling) {
  NF_RETURN_IF_ERROR(check_route(spelling));
  return has_route_memory(spelling);
}

}  // namespace nf
