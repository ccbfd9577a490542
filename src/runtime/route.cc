#include "runtime/route.h"

#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/inproc_transport.h"

namespace nf {

Status check_route(std::string_view spelling) {
  // Whoever makes the sum knows what can be summed.
  const auto alone = InprocNetwork(1).endpoint(0);
  return AllReduce::create(*alone, {.codec = std::string(spelling)}).status();
}

}  // namespace nf
