#include "nf/bench/all_reduce_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>

#include "base/buffer.h"
#include "base/checksum.h"
#include "nf/bench/all_reduce_values.h"
#include "nf/bench/rank_sync.h"

namespace nf::cli {
namespace {

constexpr int kWarmUps = 2;

std::string describe(const AllReduceCase& bench_case) {
  return fmt::format("{}{}{} of {} values", bench_case.codec, bench_case.topology ? " over " : "",
                     bench_case.topology ? to_string(*bench_case.topology) : "", bench_case.count);
}

// One rank's figures of one call.
struct Call {
  double seconds = 0;
  std::optional<std::uint64_t> bytes;
  std::uint64_t checksum = 0;  // of the result
};

// One rank's part of all cases.
class RankBench {
 public:
  RankBench(Transport& transport, int repeat, std::size_t max_count)
      : transport_(transport),
        repeat_(repeat),
        sync_(transport),
        gradient_(transport.rank(), transport.ranks(), max_count),
        buffer_(max_count * sizeof(float)) {}

  Expected<AllReduceSpeed> measure(const AllReduceCase& bench_case, const BenchEngine& engine);

 private:
  bool is_first() const { return transport_.rank() == 0; }
  std::span<std::byte> bytes() {
    return buffer_.bytes().first(values_.count * size_of(values_.type));
  }
  Status check_integers(const BenchEngine& engine, AllReduceSpeed& speed);
  Status run_once(const BenchEngine& engine, std::uint64_t step, AllReduceSpeed& speed);
  Status collect(const Call& own, AllReduceSpeed& speed);

  Transport& transport_;
  const int repeat_;
  RankSync sync_;
  BenchGradient gradient_;
  Buffer buffer_;
  Values values_;  // of this case, in buffer_
};

Expected<AllReduceSpeed> RankBench::measure(const AllReduceCase& bench_case,
                                            const BenchEngine& engine) {
  values_ = Values(buffer_.data(), bench_case.count, engine.type);
  AllReduceSpeed speed{.bench_case = bench_case,
                       .ranks = transport_.ranks(),
                       .dtype = engine.sums_integers ? "uint16" : to_string(engine.type)};
  if (engine.is_exact) {
    if (Status status = check_integers(engine, speed); !status.ok()) return status;
  }
  for (int i = 0; i < kWarmUps + repeat_; ++i) {
    const auto step = static_cast<std::uint64_t>(i);
    if (Status status = run_once(engine, step, speed); !status.ok()) return status;
    if (i == 0 && is_first() && !engine.sums_integers) speed.vnmse = gradient_.vnmse(values_);
  }
  speed.seconds.erase(speed.seconds.begin(), speed.seconds.begin() + kWarmUps);
  return speed;
}

Status RankBench::check_integers(const BenchEngine& engine, AllReduceSpeed& speed) {
  fill_integers(transport_.rank(), values_);
  NF_RETURN_IF_ERROR(engine.load(values_));
  NF_RETURN_IF_ERROR(engine.run(0, values_));
  NF_RETURN_IF_ERROR(engine.store(values_));
  if (is_first()) speed.wrong += count_wrong_integers(transport_.ranks(), values_);
  return {};
}

// Times one call, after a barrier.
Status RankBench::run_once(const BenchEngine& engine, std::uint64_t step, AllReduceSpeed& speed) {
  gradient_.put(values_);
  NF_RETURN_IF_ERROR(engine.load(values_));
  const std::uint64_t sent = engine.bytes_sent ? engine.bytes_sent() : 0;
  NF_RETURN_IF_ERROR(sync_.barrier());
  const Duration start = transport_.now();
  NF_RETURN_IF_ERROR(engine.run(step, values_));
  const Duration end = transport_.now();
  NF_RETURN_IF_ERROR(engine.store(values_));
  Call own{.seconds = std::chrono::duration<double>(end - start).count(),
           .bytes = {},
           .checksum = checksum(bytes())};
  if (engine.bytes_sent) own.bytes = engine.bytes_sent() - sent;
  return collect(own, speed);
}

// Rank 0 gathers the figures of all ranks. If the checksums differ, all ranks send their results to
// rank 0, which counts the differences.
Status RankBench::collect(const Call& own, AllReduceSpeed& speed) {
  const Expected<std::vector<Call>> calls = sync_.gather(own);
  if (!calls) return calls.status();
  Call worst = own;
  bool is_same = true;
  for (const Call& call : *calls) {
    worst.seconds = std::max(worst.seconds, call.seconds);
    worst.bytes = std::max(worst.bytes, call.bytes);
    is_same = is_same && call.checksum == own.checksum;
  }
  speed.seconds.push_back(worst.seconds);
  speed.wire_bytes = std::max(speed.wire_bytes, worst.bytes);
  NF_RETURN_IF_ERROR(sync_.share(is_same));
  if (is_same) return {};
  const Expected<std::uint64_t> different = sync_.count_differences(bytes(), size_of(values_.type));
  if (!different) return different.status();
  speed.wrong += *different;
  return {};
}

}  // namespace

Status run_all_reduce_bench(Transport& transport, const AllReduceBench& bench,
                            const EngineFactory& make_engine, AllReduceSink* sink) {
  std::size_t max_count = 0;
  for (const AllReduceCase& bench_case : bench.cases) {
    const Expected<BenchEngine> engine = make_engine(bench_case);
    if (!engine) return engine.status();
    max_count = std::max(max_count, bench_case.count);
  }
  if (sink != nullptr) sink->progress.show("generating gradients");
  RankBench rank(transport, bench.repeat, max_count);
  for (const AllReduceCase& bench_case : bench.cases) {
    if (sink != nullptr) {
      sink->progress.step();
      sink->progress.show(describe(bench_case));
    }
    const Expected<BenchEngine> engine = make_engine(bench_case);
    if (!engine) return engine.status();
    const Expected<AllReduceSpeed> speed = rank.measure(bench_case, *engine);
    if (!speed) {
      return {speed.status().code(),
              fmt::format("{}: {}", describe(bench_case), speed.status().message())};
    }
    if (sink != nullptr) sink->on_result(*speed);
  }
  return {};
}

}  // namespace nf::cli
