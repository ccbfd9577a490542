#include "collective/route_memory.h"

#include <memory>

#include "collective/low_rank_all_reduce.h"
#include "neuron_fabric/codec.h"
#include "neuron_fabric/codec_spec.h"

namespace nf {

bool is_low_rank(std::string_view codec) {
  const Expected<CodecSpec> spec = CodecSpec::parse(codec);
  return spec && spec->name == LowRankAllReduce::kName;
}

bool has_route_memory(std::string_view codec) {
  if (is_low_rank(codec)) return true;
  const Expected<std::unique_ptr<Codec>> made = make_codec(codec);
  return made && ((*made)->keeps_residual() || (*made)->uses_rms_history());
}

bool RouteSteps::begin(std::uint64_t parameter, std::uint64_t step) {
  std::uint64_t& last = last_[parameter];
  const bool is_current = last + 1 == step;
  last = step;
  return is_current;
}

void RouteSteps::loaded(std::span<const MemoryEntry> entries, std::uint64_t step) {
  for (const MemoryEntry& entry : entries) last_[entry.parameter] = step - 1;
}

std::vector<MemoryEntry> RouteSteps::current(std::vector<MemoryEntry> entries,
                                             std::uint64_t step) const {
  std::erase_if(entries, [&](const MemoryEntry& entry) {
    const auto last = last_.find(entry.parameter);
    return last == last_.end() || last->second + 1 < step;
  });
  return entries;
}

std::vector<std::uint64_t> RouteSteps::parameters_of(std::uint64_t step) const {
  std::vector<std::uint64_t> parameters;
  for (const auto& [parameter, last] : last_) {
    if (last == step) parameters.push_back(parameter);
  }
  return parameters;
}

}  // namespace nf
