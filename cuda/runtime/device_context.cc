#include "cuda/runtime/device_context.h"

#include <chrono>
#include <thread>

#include "cuda/base/launch.h"

namespace nf::cuda {
namespace {

// The intervals for polling the device and the peers, and the wait for a report of the lost peer.
constexpr std::chrono::microseconds kPollInterval{100};
constexpr std::chrono::milliseconds kPeerCheckInterval{200};
constexpr std::chrono::seconds kReportWait{2};

Status health(const DeviceContext& context) {
  for (const Channel& channel : context.channels) NF_RETURN_IF_ERROR(channel.transport.health());
  return {};
}

}  // namespace

Status wait(const DeviceContext& context, std::uint64_t step,
            const std::function<cudaError_t()>& query) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Clock::time_point next_check = begin + kPeerCheckInterval;
  for (;;) {
    const cudaError_t state = query();
    // An aborted transfer completes, too, with undefined data.
    if (state == cudaSuccess) return health(context);
    if (state != cudaErrorNotReady) return to_status(state, "work on the device");
    static_cast<void>(cudaGetLastError());  // clear it: not an error
    std::this_thread::sleep_for(kPollInterval);
    if (Clock::now() < next_check) continue;
    next_check = Clock::now() + kPeerCheckInterval;
    const auto check_peers = [&] {
      return context.check_peers ? context.check_peers(step, Clock::now() - begin) : Status();
    };
    Status failure = check_peers();
    if (failure.ok()) {
      failure = health(context);
      // It does not name the lost peer. check_peers() does, somewhat later.
      for (Duration waited{}; !failure.ok() && waited < kReportWait; waited += kPeerCheckInterval) {
        std::this_thread::sleep_for(kPeerCheckInterval);
        const Status named = check_peers();
        if (named.ok()) continue;
        failure = named;
        break;
      }
    }
    if (failure.ok()) continue;
    for (const Channel& channel : context.channels) channel.transport.abort(failure);
    return failure;
  }
}

}  // namespace nf::cuda
