#include "neuron_fabric/all_reduce.h"

#include <fmt/format.h>

#include "base/checksum.h"
#include "collective/codec_all_reduce.h"
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

Status AllReduce::complete(Status status, std::string_view collective, std::uint64_t step) {
  while (status.ok()) {
    const Expected<bool> is_done = advance();
    if (!is_done) {
      status = is_done.status();
    } else if (*is_done) {
      return {};
    } else {
      status = transport().wait(transport().now() + bounded(timeout()));
    }
  }
  // All ranks report a disagreement and no transfer is pending: the next call may succeed.
  if (status.code() == ErrorCode::kDisagreement) return status;
  std::string reason = status.message();
  if (status.code() == ErrorCode::kDeadlineExceeded) {
    reason = fmt::format("waited {:.3g} s for {}", std::chrono::duration<double>(timeout()).count(),
                         waiting_for());
  }
  status = {status.code(), fmt::format("{} of step {} on rank {}: {}", collective, step,
                                       transport().rank(), reason)};
  transport().abort(status);
  return status;
}

}  // namespace nf
