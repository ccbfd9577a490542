// Runs a non-blocking call to its end.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "neuron_fabric/status.h"
#include "neuron_fabric/time.h"
#include "neuron_fabric/transport.h"

namespace nf {

// Advances a started call, which has advance() and waiting_for(), until it is done. After a failure
// other than kDisagreement, aborts the transport. Errors begin with the name of the collective.
template <typename Call>
Status complete_call(Status status, Call& call, Transport& transport, Duration timeout,
                     std::string_view collective, std::uint64_t step) {
  while (status.ok()) {
    const Expected<bool> is_done = call.advance();
    if (!is_done) {
      status = is_done.status();
    } else if (*is_done) {
      return {};
    } else {
      status = transport.wait(transport.now() + bounded(timeout));
    }
  }
  // All ranks report a disagreement and no transfer is pending: the next call may succeed.
  if (status.code() == ErrorCode::kDisagreement) return status;
  std::string reason = status.message();
  if (status.code() == ErrorCode::kDeadlineExceeded) {
    reason = fmt::format("waited {:.3g} s for {}", std::chrono::duration<double>(timeout).count(),
                         call.waiting_for());
  }
  status = {status.code(), fmt::format("{} of step {} on rank {}: {}", collective, step,
                                       transport.rank(), reason)};
  transport.abort(status);
  return status;
}

}  // namespace nf
