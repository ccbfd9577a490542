#include "neuron_fabric/all_reduce.h"

#include <utility>

#include "base/checksum.h"
#include "collective/codec_all_reduce.h"
#include "collective/complete_call.h"
#include "collective/low_rank_all_reduce.h"

namespace nf {

std::uint64_t parameter_key(std::string_view name) { return checksum(name); }

Expected<std::unique_ptr<AllReduce>> AllReduce::create(Transport& transport,
                                                       const AllReduceOptions& options) {
  const Expected<CodecSpec> spec = CodecSpec::parse(options.codec);
  if (!spec) return spec.status();
  if (spec->name == LowRankAllReduce::kName) return LowRankAllReduce::create(transport, options);
  Expected<std::unique_ptr<CodecAllReduce>> sum = CodecAllReduce::create(transport, options);
  if (!sum) return sum.status();
  return std::unique_ptr<AllReduce>(std::move(*sum));
}

Status AllReduce::run(const AllReduceCall& call) {
  return complete(start(call), to_string(Collective::kAllReduce), call.step);
}

Status AllReduce::complete(Status started, std::string_view collective, std::uint64_t step) {
  return complete_call(std::move(started), *this, transport(), timeout(), collective, step);
}

}  // namespace nf
