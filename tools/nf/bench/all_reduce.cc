// nf bench all_reduce: how long sums over all ranks take, by codec, topology and size, with the
// figures that nccl-tests made customary, the bytes that really travel and the error of the result.
#include "nf/bench/all_reduce.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
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

namespace nf::cli {
namespace {

// Of one machine; beyond it whole numbers would no longer sum exactly in BF16 either.
constexpr std::uint32_t kMostRanks = 64;
constexpr std::uint32_t kUsualRanks = 4;

struct Options {
  AllReduceRequest request;
  std::optional<std::uint32_t> ranks;
};

// Over MPI, which also brings the ranks of NCCL together.
Status run_over_mpi(const AllReduceBench& bench) {
  const Expected<std::unique_ptr<Transport>> transport = make_mpi_transport();
  if (!transport) return transport.status();
  if (bench.transport == "mpi") {
    return show_all_reduce_bench(**transport, bench, mpi_engines(**transport, bench));
  }
  const Expected<EngineMaker> engines = nccl_engines(**transport, bench);
  if (!engines) return engines.status();
  return show_all_reduce_bench(**transport, bench, *engines);
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

// How many ranks the job has that this process is a rank of, where torchrun or the like started it.
Expected<std::optional<std::uint32_t>> ranks_of_job() {
  if (std::getenv("RANK") == nullptr) return std::optional<std::uint32_t>();
  const char* const text = std::getenv("WORLD_SIZE");
  const std::string_view size = text == nullptr ? "" : text;
  std::uint32_t ranks = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), ranks);
  if (error != std::errc() || end != size.data() + size.size() || ranks == 0) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("RANK is set, and WORLD_SIZE is '{}', no number of ranks", size));
  }
  return std::optional(ranks);
}

// Becomes a rank of the job, or whoever starts the ranks. What cannot be measured fails before
// that, so that it is told once and in a moment.
Status become_c10d(const Options& options, const AllReduceBench& bench) {
  const Expected<std::optional<std::uint32_t>> job = ranks_of_job();
  if (!job) return job.status();
  if (*job && options.ranks) {
    return {ErrorCode::kBadConfig, "--ranks: whoever started this rank says how many there are"};
  }
  const std::uint32_t ranks = job->value_or(options.ranks.value_or(kUsualRanks));
  InprocNetwork network(ranks);
  const std::unique_ptr<Transport> transport = network.endpoint(0);
  for (const AllReduceCase& subject : bench.cases) {
    if (!subject.topology) continue;
    const Expected<BenchEngine> engine = make_our_engine(subject, bench, *transport);
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
    return {ErrorCode::kBadConfig, "--ranks: mpirun says how many there are (mpirun -n N nf ...)"};
  }
  const Expected<AllReduceBench> bench = make_bench(options.request);
  if (!bench) return bench.status();
  if (is_mpi) return run_over_mpi(*bench);
  if (transport == "c10d") return become_c10d(options, *bench);
  return run_over_inproc(options.ranks.value_or(kUsualRanks), [&](Transport& end) {
    return show_all_reduce_bench(end, *bench, [&](const AllReduceCase& subject) {
      return make_our_engine(subject, *bench, end);
    });
  });
}

}  // namespace

void add_bench_all_reduce(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("all_reduce", "time, bytes and error of sums over ranks");
  auto options = std::make_shared<Options>();
  AllReduceRequest& request = options->request;
  const auto add_names = [command](const char* name, std::vector<std::string>& names,
                                   const char* what) {
    return command->add_option(name, names, what)
        ->type_name("A,B...")
        ->delimiter(',')
        ->allow_extra_args(false);
  };
  command->add_option("-b,--minbytes", request.begin, "the first size, of FP32 values")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("-e,--maxbytes", request.end, "the last size at most")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("-f,--stepfactor", request.factor, "from one size to the next")
      ->type_name("N")
      ->check(CLI::Range(2, 1 << 20).description(""))
      ->capture_default_str();
  add_names("--codec", request.codecs, "codecs to measure; without it, all");
  add_names("--topology", request.topologies, "ways to sum")->capture_default_str();
  command->add_option("--transport", request.transport, "between ranks")
      ->type_name("inproc|mpi|c10d|nccl")
      ->check(CLI::IsMember({"inproc", "mpi", "c10d", "nccl"}).description(""))
      ->capture_default_str();
  command
      ->add_option("--ranks", options->ranks,
                   fmt::format("threads of inproc, processes of c10d; {}", kUsualRanks))
      ->type_name("N")
      ->check(CLI::Range(std::uint32_t{1}, kMostRanks).description(""));
  command
      ->add_option("--host-group,--group", request.host_group_size,
                   "ranks per host, for hierarchical")
      ->type_name("N");
  command->add_option("--dtype", request.dtype, "type of the values")
      ->type_name("fp32|bf16")
      ->check(CLI::IsMember({"fp32", "bf16"}).description(""))
      ->capture_default_str();
  command->add_option("--repeat", request.repeat, "calls of each case, after two to warm up")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000).description(""))
      ->capture_default_str();
  command->add_option("--tile", request.tile, "of a message, about; otherwise 256K, of nccl 8M")
      ->type_name("SIZE");
  command->add_flag("--json", request.as_json, "one JSON object a line instead of a table");
  command->footer(
      "Topologies: ring, tree, direct, halving_doubling, endpoint, hierarchical.\n"
      "\n"
      "With --transport mpi, mpirun starts the ranks and rank 0 prints. There --codec also knows\n"
      "mpi_fp32 and mpi_16bit: MPI_Allreduce itself, of FP32 values and of as many 16-bit ones.\n"
      "\n"
      "With --transport c10d, ranks are processes with PyTorch, joined by a process group over "
      "Gloo\n"
      "as those of nf.attach() are: on this machine, or those that torchrun or the like started.\n"
      "There --codec also knows c10d_fp32 and c10d_bf16: torch.distributed.all_reduce itself.\n"
      "\n"
      "With --transport nccl, mpirun starts the ranks too; values lie in device memory, and "
      "several\n"
      "ranks may share a device. There --codec also knows nccl_fp32 and nccl_bf16: NCCL's own.");
  command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace nf::cli
