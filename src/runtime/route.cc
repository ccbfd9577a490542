#include "runtime/route.h"

#include "collective/low_rank_all_reduce.h"
#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/inproc_transport.h"

namespace nf {

Status check_route(std::string_view spelling) {
  // Whoever makes the sum knows what can be summed.
  const auto alone = InprocNetwork(1).endpoint(0);
  return AllReduce::create(*alone, {.codec = std::string(spelling)}).status();
}

Expected<bool> remembers(std::string_view spelling) {
  NF_RETURN_IF_ERROR(check_route(spelling));
  const Expected<CodecSpec> spec = CodecSpec::parse(spelling);
  if (spec && spec->name == LowRankAllReduce::kName) return true;
  const Expected<std::unique_ptr<Codec>> codec = make_codec(std::string(spelling));
  if (!codec) return codec.status();
  return (*codec)->keeps_residual();
}

}  // namespace nf
