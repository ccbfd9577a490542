// nf bench codec: the speed of each codec operation, compared with a copy of the same values, and
// the error of its result.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codec/isa.h"
#include "nf/bench/all_reduce.h"
#include "nf/bench/codec_speed.h"
#include "nf/bench/codec_speed_cuda.h"
#include "nf/support/command.h"
#include "nf/support/numbers.h"
#include "nf/support/progress.h"
#include "nf/support/table.h"
#include "nf/support/usage.h"

namespace nf::cli {
namespace {

// More than fits in the memory of one host, at four bytes per value and several buffers.
constexpr std::uint64_t kMaxValues = std::uint64_t{1} << 32;
// For a device, at most this many values are generated on the host and then repeated.
constexpr std::uint64_t kMaxGenerated = std::uint64_t{1} << 24;
constexpr std::array kDataTypes = {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat16};

struct Options {
  std::vector<std::string> codecs;
  std::uint64_t count = 16'777'216;
  std::string isa;
  std::string device = "cpu";
  std::string dtype = "fp32";
  int repeat = 11;
  bool as_json = false;
};

DataType data_type(std::string_view name) {
  for (const DataType type : kDataTypes) {
    if (to_string(type) == name) return type;
  }
  return DataType::kFloat32;
}

std::vector<std::string> default_codecs(bool on_cuda) {
  std::vector<std::string> spellings;
  for (const CodecEntry& entry : builtin_codecs()) {
    if (on_cuda && !has_cuda_codec(std::string(entry.example))) continue;
    spellings.emplace_back(entry.example);
  }
  // A fixed width shows the speed of the kernels without width changes.
  for (const char* spelling : {"waterfill+width=4", "dynamiq+width=4"}) {
    if (make_codec(spelling)) spellings.emplace_back(spelling);
  }
  return spellings;
}

std::string json_line(const OpSpeed& row, const Options& options) {
  nlohmann::ordered_json json{{"codec", row.codec},
                              {"op", row.op},
                              {"isa", options.isa},
                              {"device", options.device},
                              {"dtype", options.dtype},
                              {"count", options.count},
                              {"seconds", row.timing.seconds},
                              {"bytes", row.bytes},
                              {"gbps", row.gbps()},
                              {"roof_gbps", row.roof_gbps},
                              {"roof_ratio", row.roof_ratio()},
                              {"spread", row.timing.spread},
                              {"bits", nullptr},
                              {"vnmse", nullptr}};
  if (row.bits) json["bits"] = *row.bits;
  if (row.vnmse) json["vnmse"] = *row.vnmse;
  return json.dump();
}

void add_cells(Table& table, const std::vector<OpSpeed>& rows) {
  for (const OpSpeed& row : rows) {
    const bool is_first = &row == &rows.front();
    table.add({is_first ? row.codec : "", row.op, row.bits ? fmt::format("{:.2f}", *row.bits) : "",
               row.vnmse ? fmt::format("{:.2e}", *row.vnmse) : "",
               fmt::format("{:.2f}", row.timing.seconds * 1e6),
               fmt::format("{:.2f}", row.timing.spread * 1e6), fmt::format("{:.2f}", row.gbps()),
               fmt::format("{:.2f}", row.roof_gbps), fmt::format("{:.2f}", row.roof_ratio())});
  }
}

void print_header(const Options& options) {
  const bool on_cuda = options.device == "cuda";
  fmt::print(
      "{} {} values per rank, two ranks, {}{} on {}; median of {} runs\n"
      "bits     per element of the message, including statistics\n"
      "error    squared error of the result over the squared exact result (vnmse)\n"
      "+/-      half the interquartile range of the time\n"
      "GB/s     bytes that the operation must at least read and write, per second\n"
      "copy     GB/s of a {} of the values, timed between the operations\n"
      "\n",
      grouped(options.count), options.dtype, on_cuda ? "" : "one thread, ", options.isa,
      options.device, options.repeat, on_cuda ? "copy on the device" : "memcpy");
}

Table result_table(const std::vector<std::string>& codecs) {
  std::size_t longest = 0;
  for (const std::string& codec : codecs) longest = std::max(longest, codec.size());
  return Table({{.title = "codec", .is_text = true, .min_width = longest},
                {.title = "operation", .is_text = true, .min_width = 17},
                {.title = "bits", .min_width = 5},
                {.title = "error", .min_width = 8},
                {.title = "us", .min_width = 9},
                {.title = "+/-", .min_width = 7},
                {.title = "GB/s", .min_width = 6},
                {.title = "copy", .min_width = 6},
                {.title = "of copy", .min_width = 7}});
}

Status choose_isa(Options& options) {
  if (options.device == "cuda") {
    if (!options.isa.empty()) {
      return {ErrorCode::kBadConfig, "--isa is not valid with --device cuda"};
    }
    const Expected<std::string> architecture = cuda_architecture();
    if (!architecture) return architecture.status();
    options.isa = *architecture;
    return {};
  }
  if (!options.isa.empty()) {
    const Expected<Isa> isa = find_isa(options.isa);
    if (!isa) return isa.status();
    set_isa(*isa);
  }
  const Expected<Isa> isa = active_isa();
  if (!isa) return isa.status();
  options.isa = to_string(*isa);
  return {};
}

// Creates every codec once before the measurement, so that an unknown codec fails immediately, and
// replaces each name by its canonical spelling.
Status choose_codecs(std::vector<std::string>& codecs, bool on_cuda) {
  if (codecs.empty()) codecs = default_codecs(on_cuda);
  for (std::string& spelling : codecs) {
    const Expected<std::unique_ptr<Codec>> codec = make_codec(spelling);
    if (!codec) return codec.status();
    spelling = (*codec)->spec().to_string();
  }
  return {};
}

Status run(Options options) {
  const bool on_cuda = options.device == "cuda";
  NF_RETURN_IF_ERROR(choose_isa(options));
  NF_RETURN_IF_ERROR(choose_codecs(options.codecs, on_cuda));
  Progress progress(options.codecs.size());
  progress.show("generating gradients");
  const std::uint64_t generated = on_cuda ? std::min(options.count, kMaxGenerated) : options.count;
  const GradientPair gradients(generated, data_type(options.dtype));
  Table table = result_table(options.codecs);
  if (!options.as_json) {
    progress.clear();
    print_header(options);
  }
  for (const std::string& spelling : options.codecs) {
    progress.step();
    const Expected<std::vector<OpSpeed>> rows =
        on_cuda
            ? measure_codec_on_cuda(spelling, gradients, options.count, options.repeat, progress)
            : measure_codec(spelling, gradients, options.repeat, progress);
    progress.clear();
    if (!rows) {
      return {rows.status().code(), fmt::format("{}: {}", spelling, rows.status().message())};
    }
    if (options.as_json) {
      for (const OpSpeed& row : *rows) fmt::print("{}\n", json_line(row, options));
    } else {
      add_cells(table, *rows);
      fmt::print("{}", table.text());
    }
    std::fflush(stdout);
  }
  return {};
}

void add_codec(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("codec", "measure speed and error of codec operations");
  auto options = std::make_shared<Options>();
  add_names(*command, "--codec", options->codecs, "codecs to measure; default: all");
  add_number(*command, "--count", options->count, {.min = 0, .max = kMaxValues}, "values per rank");
  command->add_option("--isa", options->isa, "instruction set; `nf info` lists those of this CPU")
      ->type_name("NAME");
  add_choice(*command, "--device", options->device, {"cpu", "cuda"}, "device to run on");
  add_choice(*command, "--dtype", options->dtype, names_of(kDataTypes), "type of the values");
  add_number(*command, "--repeat", options->repeat, {.min = 1, .max = 10'000},
             "runs of each operation");
  add_json_flag(*command, options->as_json);
  command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace

void add_bench(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("bench", "measure codecs and collectives on this host");
  command->require_subcommand(1);
  add_codec(*command, action);
  add_bench_collective(*command, action, Collective::kAllReduce);
  add_bench_collective(*command, action, Collective::kReduceScatter);
}

}  // namespace nf::cli
