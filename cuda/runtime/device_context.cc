#include "cuda/runtime/device_context.h"

#include <chrono>
#include <thread>

#include "cuda/base/launch.h"

namespace nf::cuda {
namespace {

// How long it sleeps between two looks at the device, and at the other ranks.
constexpr std::chrono::microseconds kNap{100};
constexpr std::chrono::milliseconds kLookAround{200};
constexpr std::chrono::seconds kNaming{2};

Status health(const DeviceContext& context) {
  for (const Channel& channel : context.channels) NF_RETURN_IF_ERROR(channel.transport.health());
  return {};
}

}  // namespace

Status wait(const DeviceContext& context, std::uint64_t step,
            const std::function<cudaError_t()>& ask) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Clock::time_point next_look = begin + kLookAround;
  for (;;) {
    const cudaError_t asked = ask();
    // A transfer that was broken off ends, too, with rubbish.
    if (asked == cudaSuccess) return health(context);
    if (asked != cudaErrorNotReady) return to_status(asked, "work on the device");
    static_cast<void>(cudaGetLastError());  // it is no error
    std::this_thread::sleep_for(kNap);
    if (Clock::now() < next_look) continue;
    next_look = Clock::now() + kLookAround;
    const auto check_peers = [&] {
      return context.check_peers ? context.check_peers(step, Clock::now() - begin) : Status();
    };
    Status trouble = check_peers();
    if (trouble.ok()) {
      trouble = health(context);
      // It does not say which peer is lost. Whoever watches the ranks does, if somewhat later.
      for (Duration waited{}; !trouble.ok() && waited < kNaming; waited += kLookAround) {
        std::this_thread::sleep_for(kLookAround);
        const Status named = check_peers();
        if (named.ok()) continue;
        trouble = named;
        break;
      }
    }
    if (trouble.ok()) continue;
    for (const Channel& channel : context.channels) channel.transport.abort(trouble);
    return trouble;
  }
}

}  // namespace nf::cuda
