#include "cuda/device_surroundings.h"

#include <chrono>
#include <thread>

#include "cuda/launch.h"

namespace nf::cuda {
namespace {

// How long it sleeps between two looks at the device, and at the other ranks.
constexpr std::chrono::microseconds kNap{100};
constexpr std::chrono::milliseconds kLookAround{200};

}  // namespace

Status wait(const DeviceSurroundings& surroundings, std::uint64_t step,
            const std::function<cudaError_t()>& ask) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Clock::time_point next_look = begin + kLookAround;
  for (;;) {
    const cudaError_t asked = ask();
    // A transfer that was broken off ends, too, with rubbish.
    if (asked == cudaSuccess) return surroundings.transport.health();
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
      trouble = surroundings.transport.health();
      if (!trouble.ok()) {
        // Whoever watches the ranks says which one it is, if a moment later.
        std::this_thread::sleep_for(kLookAround);
        if (const Status named = look_around(); !named.ok()) trouble = named;
      }
    }
    if (trouble.ok()) continue;
    surroundings.transport.abort(trouble);
    return trouble;
  }
}

}  // namespace nf::cuda
