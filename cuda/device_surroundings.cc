#include "cuda/device_surroundings.h"

#include <chrono>
#include <thread>

#include "cuda/launch.h"

namespace nf::cuda {
namespace {

// How long it sleeps between two looks at the device, and at the other ranks.
constexpr std::chrono::microseconds kNap{100};
constexpr std::chrono::milliseconds kLookAround{200};
constexpr std::chrono::seconds kNaming{2};

Status health(const DeviceSurroundings& surroundings) {
  for (const Lane& lane : surroundings.lanes) NF_RETURN_IF_ERROR(lane.transport.health());
  return {};
}

}  // namespace

Status wait(const DeviceSurroundings& surroundings, std::uint64_t step,
            const std::function<cudaError_t()>& ask) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Clock::time_point next_look = begin + kLookAround;
  for (;;) {
    const cudaError_t asked = ask();
    // A transfer that was broken off ends, too, with rubbish.
    if (asked == cudaSuccess) return health(surroundings);
    if (asked != cudaErrorNotReady) return to_status(asked, "work on the device");
    static_cast<void>(cudaGetLastError());  // it is no error
    std::this_thread::sleep_for(kNap);
    if (Clock::now() < next_look) continue;
    next_look = Clock::now() + kLookAround;
    const auto look_around = [&] {
      return surroundings.look_around ? surroundings.look_around(step, Clock::now() - begin)
                                      : Status();
    };
    Status trouble = look_around();
    if (trouble.ok()) {
      trouble = health(surroundings);
      // It does not say which peer is lost. Whoever watches the ranks does, if somewhat later.
      for (Duration waited{}; !trouble.ok() && waited < kNaming; waited += kLookAround) {
        std::this_thread::sleep_for(kLookAround);
        const Status named = look_around();
        if (named.ok()) continue;
        trouble = named;
        break;
      }
    }
    if (trouble.ok()) continue;
    for (const Lane& lane : surroundings.lanes) lane.transport.abort(trouble);
    return trouble;
  }
}

}  // namespace nf::cuda
