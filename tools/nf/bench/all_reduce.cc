// nf bench all_reduce, reduce_scatter: times collectives per codec, topology and size. Reports the
// columns of nccl-tests, the bytes actually sent and the error of the result.
#include "nf/bench/all_reduce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "neuron_fabric/inproc_transport.h"
#include "neuron_fabric/mpi_transport.h"
#include "nf/bench/all_reduce_print.h"
#include "nf/bench/all_reduce_request.h"
#include "nf/bench/engines.h"
#include "nf/support/helper.h"
#include "nf/support/numbers.h"
#include "nf/support/usage.h"

namespace nf::cli {
namespace {

// Above 85 ranks the integers of the exactness check would round in BF16.
constexpr std::uint32_t kMaxRanks = 64;
constexpr std::uint32_t kDefaultRanks = 4;

struct Options {
  AllReduceRequest request;
  std::optional<std::uint32_t> ranks;
};

// For --transport mpi, and for nccl, which uses MPI for its rendezvous.
Status run_over_mpi(const AllReduceBench& bench) {
  const Expected<std::unique_ptr<Transport>> transport = make_mpi_transport();
  if (!transport) return transport.status();
  if (bench.transport == "mpi") {
    return print_all_reduce_bench(**transport, bench, mpi_engines(**transport, bench));
  }
  const Expected<EngineFactory> engines = nccl_engines(**transport, bench);
  if (!engines) return engines.status();
  return print_all_reduce_bench(**transport, bench, *engines);
}

// Runs one thread per rank. If several ranks fail, returns the original failure rather than a
// consequence of it (kPeerLost, kAborted).
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
        end.reset();  // other ranks must not wait for this one
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

// The number of ranks of the job if a launcher such as torchrun started this process.
Expected<std::optional<std::uint32_t>> launched_ranks() {
  if (std::getenv("RANK") == nullptr) return std::optional<std::uint32_t>();
  const char* const text = std::getenv("WORLD_SIZE");
  const std::string_view size = text == nullptr ? "" : text;
  std::uint32_t ranks = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), ranks);
  if (error != std::errc() || end != size.data() + size.size() || ranks == 0) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("RANK is set, but WORLD_SIZE ('{}') is not a number of ranks", size));
  }
  return std::optional(ranks);
}

// Replaces this process with the Python helper, which is a rank of the launched job or starts the
// ranks itself. Invalid cases fail before that: immediately, and only once.
Status run_over_c10d(const Options& options, const AllReduceBench& bench) {
  const Expected<std::optional<std::uint32_t>> launched = launched_ranks();
  if (!launched) return launched.status();
  if (*launched && options.ranks) {
    return {ErrorCode::kBadConfig,
            "--ranks is not valid in a launched job: WORLD_SIZE is the number of ranks"};
  }
  const std::uint32_t ranks = launched->value_or(options.ranks.value_or(kDefaultRanks));
  InprocNetwork network(ranks);
  const std::unique_ptr<Transport> transport = network.endpoint(0);
  for (const AllReduceCase& bench_case : bench.cases) {
    if (!bench_case.topology) continue;
    const Expected<BenchEngine> engine = make_fabric_engine(bench_case, bench, *transport);
    if (!engine) return engine.status();
  }
  constexpr Helper kHelper{.name = "bench all_reduce --transport c10d",
                           .module = "neuron_fabric_lab.bench"};
  const std::string count = fmt::format("{}", ranks);
  const std::string request = to_text(options.request);
  return start_helper(kHelper, std::array{"--ranks", count.c_str(), request.c_str(),
                                          static_cast<const char*>(nullptr)}
                                   .data());
}

Status run(const Options& options) {
  const std::string& transport = options.request.transport;
  const bool is_mpi = transport == "mpi" || transport == "nccl";
  if (is_mpi && options.ranks) {
    return {ErrorCode::kBadConfig,
            fmt::format("--ranks is not valid with --transport {}: mpirun sets the number of ranks "
                        "(mpirun -n N nf ...)",
                        transport)};
  }
  const Expected<AllReduceBench> bench = make_bench(options.request);
  if (!bench) return bench.status();
  if (is_mpi) return run_over_mpi(*bench);
  if (transport == "c10d") return run_over_c10d(options, *bench);
  return run_over_inproc(options.ranks.value_or(kDefaultRanks), [&](Transport& end) {
    return print_all_reduce_bench(end, *bench, [&](const AllReduceCase& bench_case) {
      return make_fabric_engine(bench_case, *bench, end);
    });
  });
}

std::string footer() {
  return fmt::format(
      "Topologies: {}.\n"
      "\n"
      "--transport mpi: start the ranks with mpirun; rank 0 prints. --codec also accepts\n"
      "{}: MPI_Allreduce of FP32 values and of as many 16-bit integers.\n"
      "\n"
      "--transport c10d: the ranks are processes with PyTorch, connected by a Gloo process group\n"
      "as in nf.attach(). nf starts them on this host, or they are those of a launcher such as\n"
      "torchrun. --codec also accepts {}: torch.distributed.all_reduce.\n"
      "\n"
      "--transport nccl: start the ranks with mpirun. The values are in device memory; several\n"
      "ranks may share a device. --codec also accepts {}: ncclAllReduce.",
      to_string(all_topologies()), fmt::join(native_all_reduces("mpi"), " and "),
      fmt::join(native_all_reduces("c10d"), " and "),
      fmt::join(native_all_reduces("nccl"), " and "));
}

std::string scatter_footer() {
  return "Topologies: ring, direct, hierarchical.\n"
         "\n"
         "--transport mpi: start the ranks with mpirun; rank 0 prints.";
}

}  // namespace

void add_bench_collective(CLI::App& parent, Action& action, Collective collective) {
  const bool is_all_reduce = collective == Collective::kAllReduce;
  auto* command = parent.add_subcommand(
      std::string(to_string(collective)),
      fmt::format("measure time, bytes and error of {}",
                  is_all_reduce ? "all-reduces" : "reduce-scatters into equal shards"));
  auto options = std::make_shared<Options>();
  AllReduceRequest& request = options->request;
  request.collective = to_string(collective);
  command->add_option("-b,--minbytes", request.begin, "first size per rank, as FP32")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("-e,--maxbytes", request.end, "maximum size")
      ->type_name("SIZE")
      ->capture_default_str();
  add_number(*command, "-f,--stepfactor", request.factor, {.min = 2, .max = 1 << 20},
             "factor between sizes");
  add_names(*command, "--codec", request.codecs, "codecs to measure; default: all");
  add_names(*command, "--topology", request.topologies, "topologies to measure");
  const auto transports = std::span(kBenchTransports).first(is_all_reduce ? 4 : 2);
  add_choice(*command, "--transport", request.transport, {transports.begin(), transports.end()},
             "transport between the ranks");
  add_number(*command, "--ranks", options->ranks, {.min = 1, .max = kMaxRanks},
             fmt::format("ranks: threads of inproc{}; default: {}",
                         is_all_reduce ? ", processes of c10d" : "", kDefaultRanks));
  add_number(*command, "--host-group,--group", request.host_group_size, {},
             "ranks per host, for the hierarchical topology")
      ->default_str("");
  add_choice(*command, "--dtype", request.dtype,
             names_of(std::array{DataType::kFloat32, DataType::kBfloat16}), "type of the values");
  add_number(*command, "--repeat", request.repeat, {.min = 1, .max = 10'000},
             "timed calls per row, after two warm-up calls");
  command
      ->add_option("--tile", request.tile,
                   fmt::format("approximate size of a message; default: 256K{}",
                               is_all_reduce ? ", for nccl 8M" : ""))
      ->type_name("SIZE");
  add_json_flag(*command, request.as_json);
  command->footer(is_all_reduce ? footer() : scatter_footer());
  command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace nf::cli
