#include "nf/bench/all_reduce_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "nf/support/timing.h"

namespace nf::cli {
namespace {

// The figures derived from a measurement. 1 GB is 10^9 bytes.
struct Figures {
  Figures(const AllReduceSpeed& speed, Collective collective);

  std::uint64_t size = 0;
  double p50_us = 0;
  double p99_us = 0;
  double algbw = 0;
  double busbw = 0;
  std::optional<double> wirebw;
};

Figures::Figures(const AllReduceSpeed& speed, Collective collective)
    : size(speed.bench_case.count * sizeof(float)) {
  std::vector<double> sorted = speed.seconds;
  std::sort(sorted.begin(), sorted.end());
  const double median = quantile(sorted, 0.5);
  const double ranks = speed.ranks;
  p50_us = median * 1e6;
  p99_us = quantile(sorted, 0.99) * 1e6;
  algbw = static_cast<double>(size) / median / 1e9;
  const double halves = collective == Collective::kAllReduce ? 2 : 1;
  busbw = algbw * halves * (ranks - 1) / ranks;
  if (speed.wire_bytes) wirebw = static_cast<double>(*speed.wire_bytes) / median / 1e9;
}

std::string topology_name(const AllReduceCase& bench_case) {
  return bench_case.topology ? std::string(to_string(*bench_case.topology)) : "-";
}

Table result_table(const std::vector<AllReduceCase>& cases) {
  std::size_t codec = 0;
  std::size_t topology = 0;
  for (const AllReduceCase& bench_case : cases) {
    codec = std::max(codec, bench_case.codec.size());
    topology = std::max(topology, topology_name(bench_case).size());
  }
  return Table({{.title = "size", .min_width = 11},
                {.title = "codec", .is_text = true, .min_width = codec},
                {.title = "topology", .is_text = true, .min_width = topology},
                {.title = "p50 us", .min_width = 9},
                {.title = "p99 us", .min_width = 9},
                {.title = "algbw", .min_width = 6},
                {.title = "busbw", .min_width = 6},
                {.title = "wire bytes", .min_width = 11},
                {.title = "wirebw", .min_width = 6},
                {.title = "error", .min_width = 8},
                {.title = "wrong", .min_width = 5}});
}

}  // namespace

AllReducePrinter::AllReducePrinter(const AllReduceBench& bench)
    : collective_(bench.collective),
      transport_(bench.transport),
      dtype_(to_string(bench.type)),
      repeat_(bench.repeat),
      as_json_(bench.as_json),
      table_(result_table(bench.cases)) {}

void AllReducePrinter::print(const AllReduceSpeed& speed) {
  wrong_ += speed.wrong;
  if (as_json_) {
    fmt::print("{}\n", json_line(speed));
  } else {
    if (!has_header_) print_header(speed.ranks);
    add_cells(speed);
    fmt::print("{}", table_.text());
  }
  has_header_ = true;
  std::fflush(stdout);
}

Status AllReducePrinter::status() const {
  if (wrong_ == 0) return {};
  return {ErrorCode::kDisagreement,
          fmt::format("{} elements are wrong; see the rows with `wrong` above 0", wrong_)};
}

std::string AllReducePrinter::json_line(const AllReduceSpeed& speed) const {
  const Figures figures(speed, collective_);
  nlohmann::ordered_json json{{"size", figures.size},
                              {"count", speed.bench_case.count},
                              {"codec", speed.bench_case.codec},
                              {"topology", nullptr},
                              {"transport", transport_},
                              {"ranks", speed.ranks},
                              {"p50_us", figures.p50_us},
                              {"p99_us", figures.p99_us},
                              {"algbw", figures.algbw},
                              {"busbw", figures.busbw},
                              {"wire_bytes", nullptr},
                              {"wirebw", nullptr},
                              {"vnmse", nullptr},
                              {"wrong", speed.wrong},
                              {"dtype", speed.dtype},
                              {"repeat", repeat_},
                              {"collective", to_string(collective_)}};
  if (speed.bench_case.topology) json["topology"] = to_string(*speed.bench_case.topology);
  if (speed.wire_bytes) json["wire_bytes"] = *speed.wire_bytes;
  if (figures.wirebw) json["wirebw"] = *figures.wirebw;
  if (speed.vnmse) json["vnmse"] = *speed.vnmse;
  return json.dump();
}

void AllReducePrinter::print_header(std::uint32_t ranks) const {
  fmt::print(
      "{} rank{} over {}, {} values; {} call{} of {}\n"
      "size    bytes per rank, as FP32\n"
      "p50     time per call of the slowest rank: median and 99th percentile\n"
      "algbw   size / p50 in GB/s; busbw = algbw * {}(n - 1) / n\n"
      "wire    bytes that the busiest rank sends per call, including statistics and frames, and\n"
      "        their GB/s; unknown for the all-reduces of MPI, c10d and NCCL\n"
      "error   squared error of the sum over the squared exact sum (vnmse)\n"
      "wrong   elements that differ between ranks, or from the exact sum if it must be exact\n"
      "\n",
      ranks, ranks == 1 ? "" : "s", transport_, dtype_, repeat_, repeat_ == 1 ? "" : "s",
      to_string(collective_), collective_ == Collective::kAllReduce ? "2 " : "");
}

void AllReducePrinter::add_cells(const AllReduceSpeed& speed) {
  const Figures figures(speed, collective_);
  table_.add({grouped(figures.size), speed.bench_case.codec, topology_name(speed.bench_case),
              fmt::format("{:.1f}", figures.p50_us), fmt::format("{:.1f}", figures.p99_us),
              fmt::format("{:.3f}", figures.algbw), fmt::format("{:.3f}", figures.busbw),
              speed.wire_bytes ? grouped(*speed.wire_bytes) : "-",
              figures.wirebw ? fmt::format("{:.3f}", *figures.wirebw) : "-",
              speed.vnmse ? fmt::format("{:.2e}", *speed.vnmse) : "-", grouped(speed.wrong)});
}

Status print_all_reduce_bench(Transport& transport, const AllReduceBench& bench,
                              const EngineFactory& make_engine) {
  if (transport.rank() != 0) return run_all_reduce_bench(transport, bench, make_engine, nullptr);
  Progress progress(bench.cases.size());
  AllReducePrinter printer(bench);
  AllReduceSink sink{.progress = progress, .on_result = [&](const AllReduceSpeed& speed) {
                       progress.clear();
                       printer.print(speed);
                     }};
  NF_RETURN_IF_ERROR(run_all_reduce_bench(transport, bench, make_engine, &sink));
  return printer.status();
}

}  // namespace nf::cli
