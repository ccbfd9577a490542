#include "nf/replay_shared.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "neuron_fabric/shared_reducer.h"
#include "nf/timing.h"

namespace nf::cli {
namespace {

constexpr std::uint64_t kSmall = std::uint64_t{1} << 14;
constexpr std::uint64_t kLarge = std::uint64_t{1} << 22;
constexpr int kRepeat = 15;
constexpr int kWarmUps = 2;

struct Rank {
  Status status;
  std::vector<double> samples;
};

void work(const std::string& spelling, const SharedReducerOptions& options, std::uint64_t values,
          int repeat, Rank& rank) {
  const Expected<std::unique_ptr<Codec>> codec = make_codec(spelling);
  const Expected<std::unique_ptr<SharedReducer>> reducer = SharedReducer::join(options);
  if (!codec || !reducer) {
    rank.status = codec ? reducer.status() : codec.status();
    return;
  }
  const Slice slice{.count = values, .ranks = options.ranks};
  std::vector<float> gradients(values);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = static_cast<float>((i * 2654435761u + options.rank) % 1009) - 504.5f;
  }
  std::vector<std::byte> own((*codec)->encoded_size(slice, 1));
  std::vector<std::byte> sum((*codec)->encoded_size(slice, options.ranks));
  rank.status =
      (*codec)->encode(slice, {.encoder = options.rank}, std::span(std::as_const(gradients)), own);
  const SharedMessage message{.slice = slice, .own = own, .sum = sum};
  for (int i = 0; i < kWarmUps + repeat && rank.status.ok(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    rank.status = (*reducer)->sum(**codec, std::span(&message, 1));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (i >= kWarmUps) rank.samples.push_back(taken.count());
  }
}

}  // namespace

Expected<double> measure_shared_sum(const std::string& codec, std::uint32_t workers,
                                    std::uint64_t values, int repeat) {
  const std::uint64_t bytes = values / 4 + 65'536;  // more than either codec's message
  std::vector<Rank> ranks(workers);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      const SharedReducerOptions options{.name = fmt::format("replay_{}", getpid()),
                                         .rank = rank,
                                         .ranks = workers,
                                         .capacity = bytes};
      threads.emplace_back(
          [&, options] { work(codec, options, values, repeat, ranks[options.rank]); });
    }
  }
  for (const Rank& rank : ranks) {
    if (!rank.status.ok()) return rank.status;
  }
  return summarise(ranks[0].samples).seconds;
}

Expected<SharedTimes> measure_shared_times(const std::string& codec, std::uint32_t workers) {
  if (workers == 1) return SharedTimes{};
  const Expected<double> small = measure_shared_sum(codec, workers, kSmall, kRepeat);
  if (!small) return small.status();
  const Expected<double> large = measure_shared_sum(codec, workers, kLarge, kRepeat);
  if (!large) return large.status();
  SharedTimes times;
  times.seconds_per_value = std::max(0.0, *large - *small) / static_cast<double>(kLarge - kSmall);
  times.seconds = std::max(0.0, *small - times.seconds_per_value * static_cast<double>(kSmall));
  return times;
}

}  // namespace nf::cli
