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

std::string describe(const AllReduceCase& subject) {
  return fmt::format("{}{}{} of {} values", subject.codec, subject.topology ? " over " : "",
                     subject.topology ? to_string(*subject.topology) : "", subject.count);
}

// What a rank says of one call.
struct Call {
  double seconds = 0;
  std::optional<std::uint64_t> bytes;
  std::uint64_t checksum = 0;  // of the result
};

// One rank's part of all cases.
class RankBench {
 public:
  RankBench(Transport& transport, int repeat, std::size_t most)
      : transport_(transport),
        repeat_(repeat),
        meeting_(transport),
        gradient_(transport.rank(), transport.ranks(), most),
        room_(most * sizeof(float)) {}

  Expected<AllReduceSpeed> measure(const AllReduceCase& subject, const BenchEngine& engine);

 private:
  bool is_first() const { return transport_.rank() == 0; }
  std::span<std::byte> bytes() {
    return room_.bytes().first(values_.count * size_of(values_.type));
  }
  Status check_integers(const BenchEngine& engine, AllReduceSpeed& speed);
  Status call(const BenchEngine& engine, std::uint64_t step, AllReduceSpeed& speed);
  Status settle(const Call& own, AllReduceSpeed& speed);

  Transport& transport_;
  const int repeat_;
  RankSync meeting_;
  BenchGradient gradient_;
  Buffer room_;
  Values values_;  // of this case, in room_
};

Expected<AllReduceSpeed> RankBench::measure(const AllReduceCase& subject,
                                            const BenchEngine& engine) {
  values_ = Values(room_.data(), subject.count, engine.type);
  AllReduceSpeed speed{.subject = subject,
                       .ranks = transport_.ranks(),
                       .dtype = engine.sums_integers ? "uint16" : to_string(engine.type)};
  if (engine.is_exact) {
    if (Status status = check_integers(engine, speed); !status.ok()) return status;
  }
  for (int i = 0; i < kWarmUps + repeat_; ++i) {
    const auto step = static_cast<std::uint64_t>(i);
    if (Status status = call(engine, step, speed); !status.ok()) return status;
    if (i == 0 && is_first() && !engine.sums_integers) speed.vnmse = gradient_.vnmse(values_);
  }
  speed.seconds.erase(speed.seconds.begin(), speed.seconds.begin() + kWarmUps);
  return speed;
}

Status RankBench::check_integers(const BenchEngine& engine, AllReduceSpeed& speed) {
  put_integers(transport_.rank(), values_);
  NF_RETURN_IF_ERROR(engine.load(values_));
  NF_RETURN_IF_ERROR(engine.run(0, values_));
  NF_RETURN_IF_ERROR(engine.store(values_));
  if (is_first()) speed.wrong += count_wrong_integers(transport_.ranks(), values_);
  return {};
}

// One call, timed from the moment that all ranks are there.
Status RankBench::call(const BenchEngine& engine, std::uint64_t step, AllReduceSpeed& speed) {
  gradient_.put(values_);
  NF_RETURN_IF_ERROR(engine.load(values_));
  const std::uint64_t sent = engine.bytes_sent ? engine.bytes_sent() : 0;
  NF_RETURN_IF_ERROR(meeting_.barrier());
  const Duration start = transport_.now();
  NF_RETURN_IF_ERROR(engine.run(step, values_));
  const Duration end = transport_.now();
  NF_RETURN_IF_ERROR(engine.store(values_));
  Call own{.seconds = std::chrono::duration<double>(end - start).count(),
           .bytes = {},
           .checksum = checksum(bytes())};
  if (engine.bytes_sent) own.bytes = engine.bytes_sent() - sent;
  return settle(own, speed);
}

// Rank 0 takes all ranks' figures; if results differ, all ranks learn so and show theirs.
Status RankBench::settle(const Call& own, AllReduceSpeed& speed) {
  const Expected<std::vector<Call>> calls = meeting_.gather(own);
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
  NF_RETURN_IF_ERROR(meeting_.share(is_same));
  if (is_same) return {};
  const Expected<std::uint64_t> different =
      meeting_.count_differences(bytes(), size_of(values_.type));
  if (!different) return different.status();
  speed.wrong += *different;
  return {};
}

}  // namespace

Status run_all_reduce_bench(Transport& transport, const AllReduceBench& bench,
                            const EngineMaker& make_engine, AllReduceReader* reader) {
  std::size_t most = 0;
  for (const AllReduceCase& subject : bench.cases) {
    const Expected<BenchEngine> engine = make_engine(subject);
    if (!engine) return engine.status();
    most = std::max(most, subject.count);
  }
  if (reader != nullptr) reader->progress.show("making gradients");
  RankBench rank(transport, bench.repeat, most);
  for (const AllReduceCase& subject : bench.cases) {
    if (reader != nullptr) {
      reader->progress.step();
      reader->progress.show(describe(subject));
    }
    const Expected<BenchEngine> engine = make_engine(subject);
    if (!engine) return engine.status();
    const Expected<AllReduceSpeed> speed = rank.measure(subject, *engine);
    if (!speed) {
      return {speed.status().code(),
              fmt::format("{}: {}", describe(subject), speed.status().message())};
    }
    if (reader != nullptr) reader->take(*speed);
  }
  return {};
}

}  // namespace nf::cli
