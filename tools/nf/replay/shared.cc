#include "nf/replay/shared.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "neuron_fabric/shared_reducer.h"
#include "nf/bench/dense_ring.h"
#include "nf/bench/rank_processes.h"
#include "nf/support/timing.h"

namespace nf::cli {
namespace {

constexpr std::uint64_t kSmall = std::uint64_t{1} << 14;  // values per bucket
constexpr std::uint64_t kLarge = std::uint64_t{1} << 22;
constexpr int kMinRepeat = 9;
constexpr int kMaxRepeat = 100;
constexpr double kSeconds = 2;  // computing time per size
constexpr int kWarmUps = 2;
// CPU time of a rank between two all-reduces: long enough that ranks on the same core arrive one
// after another, as after a backward pass, and that waiting ranks go to sleep.
constexpr double kComputeSeconds = 0.01;

// A name of shared memory, which is visible to all users of the host.
std::string random_name() {
  std::random_device random;
  return fmt::format("replay-{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

double processor_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Uses CPU time and ends by writing all gradients, as a backward pass does.
void compute(std::vector<float>& gradients) {
  const double end = processor_seconds() + kComputeSeconds;
  do {
    for (float& gradient : gradients) gradient *= 0.9999f;
  } while (processor_seconds() < end);
}

int repeat_of(std::uint32_t workers) {
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  const double round = kComputeSeconds * std::max(1.0, workers / cores);
  return std::clamp(static_cast<int>(kSeconds / round), kMinRepeat, kMaxRepeat);
}

// One process of the job.
class Rank {
 public:
  Rank(const SharedReducerOptions& options, const BucketTraffic& bucket,
       const DenseSockets& sockets)
      : options_(options),
        slice_{.count = bucket.low_bit_values, .ranks = options.ranks},
        gradients_(bucket.low_bit_values),
        has_dense_(bucket.values > bucket.low_bit_values),
        dense_(sockets, options.rank, options.ranks, bucket.values - bucket.low_bit_values) {
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      gradients_[i] = static_cast<float>((i * 2654435761u + options.rank) % 1009) - 504.5f;
    }
  }

  // Writes two samples per all-reduce: whole and reduce.
  Status run(const std::string& spelling, std::span<double> samples) {
    const Expected<std::unique_ptr<Codec>> codec = make_codec(spelling);
    if (!codec) return codec.status();
    const Expected<std::unique_ptr<SharedReducer>> reducer = SharedReducer::join(options_);
    if (!reducer) return reducer.status();
    own_.resize((*codec)->encoded_size(slice_, 1));
    sum_.resize((*codec)->encoded_size(slice_, options_.ranks));
    for (std::size_t i = 0; i < samples.size(); i += 2) {
      compute(gradients_);
      if (has_dense_) dense_.start();
      const Expected<SharedSum> taken = sum(**codec, **reducer);
      if (!taken) return taken.status();
      if (has_dense_) dense_.finish();  // if a rank is gone, the reducer reports it
      samples[i] = taken->whole;
      samples[i + 1] = taken->reduce;
    }
    return {};
  }

 private:
  Expected<SharedSum> sum(const Codec& codec, SharedReducer& reducer) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    const std::span<const float> values = gradients_;
    Status status = codec.encode(slice_, {.encoder = options_.rank}, values, own_);
    const auto encoded = Clock::now();
    const SharedMessage message{.slice = slice_, .own = own_, .sum = sum_};
    if (status.ok()) status = reducer.sum(codec, std::span(&message, 1));
    const auto reduced = Clock::now();
    const Origin all{.encoder = 0, .contributions = options_.ranks};
    if (status.ok()) status = codec.decode(slice_, all, sum_, std::span(gradients_));
    if (!status.ok()) return status;
    return SharedSum{.whole = std::chrono::duration<double>(Clock::now() - begin).count(),
                     .reduce = std::chrono::duration<double>(reduced - encoded).count()};
  }

  const SharedReducerOptions options_;
  const Slice slice_;
  std::vector<float> gradients_;
  std::vector<std::byte> own_;
  std::vector<std::byte> sum_;
  const bool has_dense_;
  DenseRing dense_;
};

}  // namespace

Expected<SharedSum> measure_shared_sum(const std::string& codec, std::uint32_t workers,
                                       const BucketTraffic& bucket, int repeat) {
  Expected<DenseSockets> sockets = DenseSockets::create(workers);
  if (!sockets) return sockets.status();
  const std::string name = random_name();
  const auto sums = static_cast<std::size_t>(kWarmUps) + static_cast<std::size_t>(repeat);
  const auto samples =
      run_rank_processes(workers, 2 * sums, [&](std::uint32_t rank, std::span<double> own) {
        sockets->close_others(rank);
        const SharedReducerOptions options{
            .name = name,
            .rank = rank,
            .ranks = workers,
            .capacity = bucket.low_bit_values / 4 + 65'536};  // more than either codec's message
        return Rank(options, bucket, *sockets).run(codec, own);
      });
  if (!samples) return samples.status();
  std::vector<double> whole;
  std::vector<double> reduce;
  for (std::size_t i = 2 * kWarmUps; i < 2 * sums; i += 2) {
    const auto& last =
        *std::min_element(samples->begin(), samples->end(),
                          [i](const auto& one, const auto& other) { return one[i] < other[i]; });
    whole.push_back(last[i]);
    reduce.push_back(last[i + 1]);
  }
  return SharedSum{.whole = summarise(whole).seconds, .reduce = summarise(reduce).seconds};
}

Expected<SharedTimes> measure_shared_times(const std::string& codec, std::uint32_t workers,
                                           const BucketTrace& trace) {
  double values = 0;
  double low_bit_values = 0;
  for (const BucketTraffic& bucket : trace.buckets) {
    values += static_cast<double>(bucket.values);
    low_bit_values += static_cast<double>(bucket.low_bit_values);
  }
  if (workers == 1 || low_bit_values == 0) return SharedTimes{};
  const auto bucket_of = [&](std::uint64_t size) {
    const double low_bit = low_bit_values / values * static_cast<double>(size);
    return BucketTraffic{
        .values = size,
        .low_bit_values = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(low_bit))};
  };
  const BucketTraffic small = bucket_of(kSmall);
  const BucketTraffic large = bucket_of(kLarge);
  const int repeat = repeat_of(workers);
  const Expected<SharedSum> low = measure_shared_sum(codec, workers, small, repeat);
  if (!low) return low.status();
  const Expected<SharedSum> high = measure_shared_sum(codec, workers, large, repeat);
  if (!high) return high.status();
  const auto line = [&](double at_small, double at_large) {
    const auto from = static_cast<double>(small.low_bit_values);
    const auto to = static_cast<double>(large.low_bit_values);
    const double per_value = std::max(0.0, at_large - at_small) / (to - from);
    return TimeLine{.seconds = std::max(0.0, at_small - per_value * from),
                    .seconds_per_value = per_value};
  };
  return SharedTimes{.whole = line(low->whole, high->whole),
                     .reduce = line(low->reduce, high->reduce)};
}

}  // namespace nf::cli
