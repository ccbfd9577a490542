#include "nf/bench_all_reduce_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>

#include "base/buffer.h"
#include "base/checksum.h"
#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/mpi_transport.h"
#include "nf/bench_all_reduce_meeting.h"
#include "nf/bench_all_reduce_values.h"
#include "nf/bench_nccl.h"

namespace nf::cli {
namespace {

constexpr int kWarmUps = 2;

// What is measured: something that replaces values by their sum over all ranks.
struct Engine {
  DataType type = DataType::kFloat32;
  bool is_exact = false;       // where no addition rounds
  bool sums_integers = false;  // whatever the type says
  std::function<Status(std::uint64_t step, Values values)> run;
  std::function<std::uint64_t()> bytes_sent = {};  // so far; empty where nobody knows
  // Before and after run(), and not timed: where values are summed in other memory.
  std::function<Status(Values values)> load = [](Values /*values*/) { return Status(); };
  std::function<Status(Values values)> store = [](Values /*values*/) { return Status(); };
};

// powersgd wants a matrix: the most nearly square one with a power of two of rows.
std::size_t rows_of(std::size_t count) {
  std::size_t rows = 1;
  while (rows * rows * 4 <= count && count % (rows * 2) == 0) rows *= 2;
  return rows;
}

Expected<Engine> make_mpi_engine(std::string_view name, const Transport& transport) {
  if (transport.name() != "mpi") {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("'{}' is MPI_Allreduce itself and needs --transport mpi", name));
  }
  if (name == kMpiFp32) {
    return Engine{.is_exact = true, .run = [](std::uint64_t /*step*/, Values values) {
                    return mpi_all_reduce_floats({static_cast<float*>(values.data), values.count});
                  }};
  }
  return Engine{
      .type = DataType::kBfloat16,
      .sums_integers = true,
      .run = [](std::uint64_t /*step*/, Values values) {
        return mpi_all_reduce_16bit({static_cast<std::uint16_t*>(values.data), values.count});
      }};
}

Expected<Engine> make_nccl_engine(const AllReduceCase& subject, const AllReduceBench& bench,
                                  const std::shared_ptr<NcclBench>& nccl) {
  if (Status status = nccl->choose(subject.codec, subject.topology, bench.tile_bytes);
      !status.ok()) {
    return status;
  }
  Engine engine{.type = bench.type,
                .is_exact = subject.codec == "fp32" || subject.codec == kNcclFp32,
                .run = [nccl](std::uint64_t step,
                              Values values) { return nccl->sum(step, rows_of(values.count)); },
                .bytes_sent = [nccl] { return *nccl->bytes_sent(); },
                .load = [nccl](Values values) { return nccl->load(values); },
                .store = [nccl](Values values) { return nccl->store(values); }};
  if (is_nccl_itself(subject.codec)) {
    engine.type = subject.codec == kNcclFp32 ? DataType::kFloat32 : DataType::kBfloat16;
    engine.bytes_sent = {};
  }
  return engine;
}

Expected<Engine> make_engine(const AllReduceCase& subject, const AllReduceBench& bench,
                             Transport& transport, const std::shared_ptr<NcclBench>& nccl) {
  if (nccl != nullptr) return make_nccl_engine(subject, bench, nccl);
  if (is_nccl_itself(subject.codec)) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("'{}' is NCCL itself and needs --transport nccl", subject.codec));
  }
  if (is_mpi_itself(subject.codec)) return make_mpi_engine(subject.codec, transport);
  AllReduceOptions options{
      .codec = subject.codec, .topology = *subject.topology, .group = bench.group, .seed = 1};
  options.tile_bytes = bench.tile_bytes.value_or(options.tile_bytes);
  Expected<std::unique_ptr<AllReduce>> made = AllReduce::create(transport, options);
  if (!made) return made.status();
  const std::shared_ptr<AllReduce> sum = std::move(*made);
  return Engine{.type = bench.type,
                .is_exact = subject.codec == "fp32",
                .run =
                    [sum](std::uint64_t step, Values values) {
                      const Gradient gradient{.parameter = parameter_key("bench"),
                                              .values = values,
                                              .rows = rows_of(values.count)};
                      return sum->run({.step = step, .gradients = {&gradient, 1}});
                    },
                .bytes_sent = [sum] { return sum->traffic().total(); }};
}

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
  RankBench(Transport& transport, const AllReduceBench& bench, std::size_t most,
            std::shared_ptr<NcclBench> nccl)
      : transport_(transport),
        bench_(bench),
        nccl_(std::move(nccl)),
        meeting_(transport),
        gradient_(transport.rank(), transport.ranks(), most),
        room_(most * sizeof(float)) {}

  Expected<AllReduceSpeed> measure(const AllReduceCase& subject);

 private:
  bool is_first() const { return transport_.rank() == 0; }
  std::span<std::byte> bytes() {
    return room_.bytes().first(values_.count * size_of(values_.type));
  }
  Status check_integers(const Engine& engine, AllReduceSpeed& speed);
  Status call(const Engine& engine, std::uint64_t step, AllReduceSpeed& speed);
  Status settle(const Call& own, AllReduceSpeed& speed);

  Transport& transport_;
  const AllReduceBench& bench_;
  const std::shared_ptr<NcclBench> nccl_;  // null where values stay in host memory
  Meeting meeting_;
  BenchGradient gradient_;
  Buffer room_;
  Values values_;  // of this case, in room_
};

Expected<AllReduceSpeed> RankBench::measure(const AllReduceCase& subject) {
  const Expected<Engine> engine = make_engine(subject, bench_, transport_, nccl_);
  if (!engine) return engine.status();
  values_ = Values(room_.data(), subject.count, engine->type);
  AllReduceSpeed speed{.subject = subject,
                       .ranks = transport_.ranks(),
                       .dtype = engine->sums_integers ? "uint16" : to_string(engine->type)};
  if (engine->is_exact) {
    if (Status status = check_integers(*engine, speed); !status.ok()) return status;
  }
  for (int i = 0; i < kWarmUps + bench_.repeat; ++i) {
    const auto step = static_cast<std::uint64_t>(i);
    if (Status status = call(*engine, step, speed); !status.ok()) return status;
    if (i == 0 && is_first() && !engine->sums_integers) speed.vnmse = gradient_.vnmse(values_);
  }
  speed.seconds.erase(speed.seconds.begin(), speed.seconds.begin() + kWarmUps);
  return speed;
}

Status RankBench::check_integers(const Engine& engine, AllReduceSpeed& speed) {
  put_integers(transport_.rank(), values_);
  NF_RETURN_IF_ERROR(engine.load(values_));
  NF_RETURN_IF_ERROR(engine.run(0, values_));
  NF_RETURN_IF_ERROR(engine.store(values_));
  if (is_first()) speed.wrong += count_wrong_integers(transport_.ranks(), values_);
  return {};
}

// One call, timed from the moment that all ranks are there.
Status RankBench::call(const Engine& engine, std::uint64_t step, AllReduceSpeed& speed) {
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
                            AllReduceReader* reader) {
  std::shared_ptr<NcclBench> nccl;
  if (bench.is_on_device) {
    Expected<std::shared_ptr<NcclBench>> made = NcclBench::create(transport);
    if (!made) return made.status();
    nccl = std::move(*made);
  }
  std::size_t most = 0;
  for (const AllReduceCase& subject : bench.cases) {
    const Expected<Engine> engine = make_engine(subject, bench, transport, nccl);
    if (!engine) return engine.status();
    most = std::max(most, subject.count);
  }
  if (reader != nullptr) reader->progress.show("making gradients");
  RankBench rank(transport, bench, most, nccl);
  for (const AllReduceCase& subject : bench.cases) {
    if (reader != nullptr) {
      reader->progress.step();
      reader->progress.show(describe(subject));
    }
    const Expected<AllReduceSpeed> speed = rank.measure(subject);
    if (!speed) {
      return {speed.status().code(),
              fmt::format("{}: {}", describe(subject), speed.status().message())};
    }
    if (reader != nullptr) reader->take(*speed);
  }
  return {};
}

}  // namespace nf::cli
