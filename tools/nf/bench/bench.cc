// nf bench codec: how fast each operation of a codec is, beside a copy of the same values on the
// same machine, and how large the error of its result is.
#include <fmt/format.h>

#include <algorithm>
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
#include "nf/support/progress.h"
#include "nf/support/table.h"

namespace nf::cli {
namespace {

// Beyond what one machine's memory holds at four bytes a value and several buffers.
constexpr std::uint64_t kMostValues = std::uint64_t{1} << 32;
// Values that a device's are made of, over and over.
constexpr std::uint64_t kMostMade = std::uint64_t{1} << 24;

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
  for (const DataType type : {DataType::kBfloat16, DataType::kFloat16}) {
    if (to_string(type) == name) return type;
  }
  return DataType::kFloat32;
}

std::vector<std::string> default_codecs(bool on_cuda) {
  std::vector<std::string> spellings;
  for (const CodecEntry& entry : builtin_codecs()) {
    if (on_cuda && !has_cuda_form(std::string(entry.example))) continue;
    spellings.emplace_back(entry.example);
  }
  // One width everywhere: the kernels' own speed, without the changes of width.
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

void print_introduction(const Options& options) {
  const bool on_cuda = options.device == "cuda";
  fmt::print(
      "{} {} values a rank, two ranks, {}{} on {}; median of {} runs\n"
      "bits     an element of the message, statistics included\n"
      "error    of the result, squared, over its exact value squared (vnmse)\n"
      "+/-      half the distance between the quartiles\n"
      "GB/s     of the least bytes the operation must read and write\n"
      "copy     GB/s of a {} of the values, timed between the operations\n"
      "\n",
      grouped(options.count), options.dtype, on_cuda ? "" : "one thread, ", options.isa,
      options.device, options.repeat, on_cuda ? "copy on the device" : "memcpy");
}

Table result_table(const std::vector<std::string>& codecs) {
  std::size_t longest = 0;
  for (const std::string& codec : codecs) longest = std::max(longest, codec.size());
  return Table({{.title = "codec", .is_text = true, .least = longest},
                {.title = "operation", .is_text = true, .least = 17},
                {.title = "bits", .least = 5},
                {.title = "error", .least = 8},
                {.title = "us", .least = 9},
                {.title = "+/-", .least = 7},
                {.title = "GB/s", .least = 6},
                {.title = "copy", .least = 6},
                {.title = "of copy", .least = 7}});
}

Status choose_isa(Options& options) {
  if (options.device == "cuda") {
    if (!options.isa.empty()) {
      return {ErrorCode::kBadConfig, "--isa is for the CPU; a CUDA device has one set"};
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

// Every codec is made once before the work starts: a misspelt one fails at once, and each is known
// by its one spelling.
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
  progress.show("making gradients");
  const std::uint64_t made = on_cuda ? std::min(options.count, kMostMade) : options.count;
  const GradientPair gradients(made, data_type(options.dtype));
  Table table = result_table(options.codecs);
  if (!options.as_json) {
    progress.clear();
    print_introduction(options);
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
  auto* command = parent.add_subcommand("codec", "speed and error of each codec's operations");
  auto options = std::make_shared<Options>();
  command->add_option("--codec", options->codecs, "codecs to measure; without it, all")
      ->type_name("A,B...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--count", options->count, "values a rank")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{0}, kMostValues).description(""))
      ->capture_default_str();
  command->add_option("--isa", options->isa, "instructions to use, as `nf info` lists them")
      ->type_name("NAME");
  command->add_option("--device", options->device, "where to run")
      ->type_name("cpu|cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}).description(""))
      ->capture_default_str();
  command->add_option("--dtype", options->dtype, "type of the values")
      ->type_name("fp32|bf16|fp16")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}).description(""))
      ->capture_default_str();
  command->add_option("--repeat", options->repeat, "runs of each operation")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000).description(""))
      ->capture_default_str();
  command->add_flag("--json", options->as_json, "one JSON object a line instead of a table");
  command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace

void add_bench(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("bench", "measure speed on this machine");
  command->require_subcommand(1);
  add_codec(*command, action);
  add_bench_all_reduce(*command, action);
}

}  // namespace nf::cli
