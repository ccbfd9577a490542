#include "nf/support/timing.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace nf::cli {
namespace {

constexpr int kWarmUps = 2;
constexpr double kMinSampleSeconds = 50e-6;
constexpr double kMaxCalls = 10'000;

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Expected<std::vector<double>> sample_seconds(const Work& work, int repeat) {
  const SteadyClock clock;
  double once = 0;
  for (int i = 0; i < kWarmUps; ++i) {
    const Duration start = clock.now();
    if (Status status = work(); !status.ok()) return status;
    once = seconds_of(clock.now() - start);
  }
  const int calls =
      static_cast<int>(std::clamp(kMinSampleSeconds / std::max(once, 1e-9), 1.0, kMaxCalls));
  std::vector<double> samples;
  for (int i = 0; i < repeat; ++i) {
    const Duration start = clock.now();
    for (int call = 0; call < calls; ++call) {
      if (Status status = work(); !status.ok()) return status;
    }
    samples.push_back(seconds_of(clock.now() - start) / calls);
  }
  return samples;
}

double quantile(std::span<const double> sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Timing summarise(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return {.seconds = quantile(sorted, 0.5),
          .spread = (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / 2};
}

}  // namespace nf::cli
