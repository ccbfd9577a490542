// nf bench all_reduce: how long sums over all ranks take, by codec, topology and size, with the
// figures that nccl-tests made customary, the bytes that really travel and the error of the result.
#include "nf/bench_all_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "neuron_fabric/codec.h"
#include "neuron_fabric/inproc_transport.h"
#include "neuron_fabric/mpi_transport.h"
#include "nf/bench_all_reduce_measure.h"
#include "nf/bench_all_reduce_print.h"
#include "nf/bench_nccl.h"
#include "nf/progress.h"

namespace nf::cli {
namespace {

// Threads of one process; beyond it whole numbers would no longer sum exactly in BF16 either.
constexpr std::uint32_t kMostRanks = 64;
constexpr std::uint32_t kUsualRanks = 4;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 34;

struct Options {
  std::string begin = "1M";
  std::string end = "64M";
  std::uint64_t factor = 4;
  std::vector<std::string> codecs;
  std::vector<std::string> topologies = {"ring"};
  std::string transport = "inproc";
  std::optional<std::uint32_t> ranks;
  std::uint32_t group = 0;
  std::string dtype = "fp32";
  int repeat = 20;
  std::optional<std::string> tile;
  bool as_json = false;
};

// "64M": bytes, with K, M and G as powers of two.
Expected<std::uint64_t> parse_size(std::string_view option, std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  constexpr std::string_view kUnits = "KMG";
  const std::size_t place = unit.size() == 1 ? kUnits.find(unit) : std::string_view::npos;
  const std::size_t shift = unit.empty() ? 0 : 10 * (place + 1);
  const bool is_size = error == std::errc() && (unit.empty() || place != std::string_view::npos);
  if (!is_size || number > kMostBytes >> shift || number << shift < sizeof(float)) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("{}: '{}' is not a size in bytes from 4 to 16G, as 4096, 64K or 1M",
                              option, text));
  }
  return number << shift;
}

// Values a rank, of each size.
Expected<std::vector<std::size_t>> counts_of(const Options& options) {
  const Expected<std::uint64_t> begin = parse_size("-b", options.begin);
  if (!begin) return begin.status();
  const Expected<std::uint64_t> end = parse_size("-e", options.end);
  if (!end) return end.status();
  if (*begin > *end) {
    return Status(ErrorCode::kBadConfig, fmt::format("sizes from {} (-b) to {} (-e) are none",
                                                     options.begin, options.end));
  }
  std::vector<std::size_t> counts;
  for (std::uint64_t size = *begin; size <= *end; size *= options.factor) {
    counts.push_back(size / sizeof(float));
  }
  return counts;
}

// Where it is a codec, its one spelling.
std::string spelling_of(const std::string& text) {
  const Expected<std::unique_ptr<Codec>> codec = make_codec(text);
  return codec ? (*codec)->spec().to_string() : text;
}

Expected<std::vector<AllReduceCase>> cases_of(const Options& options) {
  const Expected<std::vector<std::size_t>> counts = counts_of(options);
  if (!counts) return counts.status();
  std::vector<Topology> topologies;
  for (const std::string& name : options.topologies) {
    const Expected<Topology> topology = find_topology(name);
    if (!topology) return topology.status();
    if (*topology == Topology::kHierarchical && options.group == 0) {
      return Status(ErrorCode::kBadConfig, "hierarchical needs the ranks of a group (--group)");
    }
    topologies.push_back(*topology);
  }
  if (options.group != 0 && std::ranges::count(topologies, Topology::kHierarchical) == 0) {
    return Status(ErrorCode::kBadConfig, "--group: only hierarchical has groups");
  }
  std::vector<std::string> codecs = options.codecs;
  if (codecs.empty()) {
    for (const CodecEntry& entry : builtin_codecs()) codecs.emplace_back(entry.example);
  }
  std::vector<AllReduceCase> cases;
  for (const std::size_t count : *counts) {
    for (const std::string& codec : codecs) {
      if (is_mpi_itself(codec) || is_nccl_itself(codec)) {
        cases.push_back({.codec = codec, .topology = {}, .count = count});
        continue;
      }
      for (const Topology topology : topologies) {
        cases.push_back({.codec = spelling_of(codec), .topology = topology, .count = count});
      }
    }
  }
  return cases;
}

Status run_over_mpi(const std::function<Status(Transport&)>& work) {
  const Expected<std::unique_ptr<Transport>> transport = make_mpi_transport();
  if (!transport) return transport.status();
  return work(**transport);
}

// One thread a rank. Of several failures, the one that the others followed from.
Status run_over_inproc(std::uint32_t ranks, const std::function<Status(Transport&)>& work) {
  std::vector<Status> results(ranks);
  std::vector<std::exception_ptr> exceptions(ranks);
  {
    InprocNetwork network(ranks);
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank, end = network.endpoint(rank)]() mutable {
        try {
          results[rank] = work(*end);
        } catch (...) {  // out of memory
          exceptions[rank] = std::current_exception();
        }
        end.reset();  // so that nobody waits for this rank
      });
    }
  }
  for (const std::exception_ptr& exception : exceptions) {
    if (exception) std::rethrow_exception(exception);
  }
  Status failure;
  for (const Status& result : results) {
    const bool is_consequence =
        result.code() == ErrorCode::kPeerLost || result.code() == ErrorCode::kAborted;
    if (!result.ok() && (failure.ok() || !is_consequence)) failure = result;
    if (!result.ok() && !is_consequence) break;
  }
  return failure;
}

Status run(const Options& options) {
  const bool is_nccl = options.transport == "nccl";
  const bool is_mpi = options.transport == "mpi" || is_nccl;
  if (is_mpi && options.ranks) {
    return {ErrorCode::kBadConfig, "--ranks: mpirun says how many there are (mpirun -n N nf ...)"};
  }
  Expected<std::vector<AllReduceCase>> cases = cases_of(options);
  if (!cases) return cases.status();
  std::optional<std::size_t> tile_bytes;
  if (options.tile) {
    const Expected<std::uint64_t> size = parse_size("--tile", *options.tile);
    if (!size) return size.status();
    tile_bytes = *size;
  }
  const AllReduceBench bench{
      .cases = std::move(*cases),
      .group = options.group,
      .type = options.dtype == "bf16" ? DataType::kBfloat16 : DataType::kFloat32,
      .repeat = options.repeat,
      .is_on_device = is_nccl,
      .tile_bytes = tile_bytes};
  Progress progress(bench.cases.size());
  AllReducePrinter printer(options.transport, bench, options.as_json);
  AllReduceReader reader{.progress = progress, .take = [&](const AllReduceSpeed& speed) {
                           progress.clear();
                           printer.print(speed);
                         }};
  const auto work = [&](Transport& transport) {
    return run_all_reduce_bench(transport, bench, transport.rank() == 0 ? &reader : nullptr);
  };
  NF_RETURN_IF_ERROR(is_mpi ? run_over_mpi(work)
                            : run_over_inproc(options.ranks.value_or(kUsualRanks), work));
  return printer.verdict();
}

}  // namespace

void add_bench_all_reduce(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("all_reduce", "time, bytes and error of sums over ranks");
  auto options = std::make_shared<Options>();
  const auto add_names = [command](const char* name, std::vector<std::string>& names,
                                   const char* what) {
    return command->add_option(name, names, what)
        ->type_name("A,B...")
        ->delimiter(',')
        ->allow_extra_args(false);
  };
  command->add_option("-b,--minbytes", options->begin, "the first size, of FP32 values")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("-e,--maxbytes", options->end, "the last size at most")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("-f,--stepfactor", options->factor, "from one size to the next")
      ->type_name("N")
      ->check(CLI::Range(2, 1 << 20).description(""))
      ->capture_default_str();
  add_names("--codec", options->codecs, "codecs to measure; without it, all");
  add_names("--topology", options->topologies, "ways to sum")->capture_default_str();
  command->add_option("--transport", options->transport, "between ranks")
      ->type_name("inproc|mpi|nccl")
      ->check(CLI::IsMember({"inproc", "mpi", "nccl"}).description(""))
      ->capture_default_str();
  command->add_option("--ranks", options->ranks, fmt::format("threads of inproc; {}", kUsualRanks))
      ->type_name("N")
      ->check(CLI::Range(std::uint32_t{1}, kMostRanks).description(""));
  command->add_option("--group", options->group, "ranks in a group, of hierarchical")
      ->type_name("N");
  command->add_option("--dtype", options->dtype, "type of the values")
      ->type_name("fp32|bf16")
      ->check(CLI::IsMember({"fp32", "bf16"}).description(""))
      ->capture_default_str();
  command->add_option("--repeat", options->repeat, "calls of each case, after two to warm up")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000).description(""))
      ->capture_default_str();
  command->add_option("--tile", options->tile, "of a message, about; otherwise 256K, of nccl 8M")
      ->type_name("SIZE");
  command->add_flag("--json", options->as_json, "one JSON object a line instead of a table");
  command->footer(
      "Topologies: ring, tree, direct, halving_doubling, endpoint, hierarchical.\n"
      "\n"
      "With --transport mpi, mpirun starts the ranks and rank 0 prints. There --codec also knows\n"
      "mpi_fp32 and mpi_16bit: MPI_Allreduce itself, of FP32 values and of as many 16-bit ones.\n"
      "\n"
      "With --transport nccl, mpirun starts the ranks too; values lie in device memory, and "
      "several\n"
      "ranks may share a device. There --codec also knows nccl_fp32 and nccl_bf16: NCCL's own.");
  command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace nf::cli
