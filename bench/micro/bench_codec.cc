// Every operation of every codec on every ISA of this host, with values that fit in a first or
// second-level cache and with values that fit in no cache. Names are codec/operation/isa/values:
//   bench_codec --benchmark_filter='waterfill:4/encode/.*'
// Bytes per second count the minimum that the operation must read and write, as in `nf bench
// codec`, which also reports the error and the speed relative to a copy.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "codec/isa.h"
#include "nf/bench/codec_ops.h"

namespace nf::cli {
namespace {

constexpr std::size_t kCounts[] = {1 << 14, 1 << 24};

const GradientPair& gradients(std::size_t count) {
  static std::map<std::size_t, std::unique_ptr<GradientPair>> pairs;
  auto& pair = pairs[count];
  if (!pair) pair = std::make_unique<GradientPair>(count, DataType::kFloat32);
  return *pair;
}

void run_op(benchmark::State& state, const std::string& codec, std::string_view op_name, Isa isa,
            std::size_t count) {
  set_isa(isa);
  const Expected<std::unique_ptr<CodecOps>> ops = CodecOps::make(codec, gradients(count));
  if (!ops) {
    state.SkipWithError(ops.status().message().c_str());
    return;
  }
  for (const CodecOp& op : (*ops)->ops()) {
    if (op.name != op_name) continue;
    for (auto _ : state) {
      if (const Status status = op.run(); !status.ok()) {
        state.SkipWithError(status.message().c_str());
        return;
      }
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(op.bytes) *
                            static_cast<std::int64_t>(state.iterations()));
  }
}

void run_copy(benchmark::State& state, std::size_t count) {
  const GradientPair& pair = gradients(count);
  Buffer to(pair.bytes());
  for (auto _ : state) {
    std::memcpy(to.data(), pair.values(0).data, pair.bytes());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(2 * static_cast<std::int64_t>(pair.bytes()) *
                          static_cast<std::int64_t>(state.iterations()));
}

void register_codec(const CodecEntry& entry) {
  const std::string codec(entry.example);
  // Take the names of the operations from the codec, with an empty gradient.
  const GradientPair empty(0, DataType::kFloat32);
  const Expected<std::unique_ptr<CodecOps>> ops = CodecOps::make(codec, empty);
  if (!ops) return;
  for (const CodecOp& op : (*ops)->ops()) {
    for (const Isa isa : available_isas()) {
      for (const std::size_t count : kCounts) {
        benchmark::RegisterBenchmark(
            fmt::format("{}/{}/{}/{}", codec, op.name, to_string(isa), count).c_str(),
            [codec, name = op.name, isa, count](benchmark::State& state) {
              run_op(state, codec, name, isa, count);
            });
      }
    }
  }
}

}  // namespace
}  // namespace nf::cli

int main(int argc, char** argv) {
  for (const std::size_t count : nf::cli::kCounts) {
    benchmark::RegisterBenchmark(
        fmt::format("copy/{}", count).c_str(),
        [count](benchmark::State& state) { nf::cli::run_copy(state, count); });
  }
  for (const nf::CodecEntry& entry : nf::builtin_codecs()) nf::cli::register_codec(entry);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
