#include "nf/bench/engines.h"

#include <memory>
#include <utility>

#include "neuron_fabric/mpi_transport.h"
#include "nf/bench/nccl.h"

namespace nf::cli {
namespace {

Expected<BenchEngine> make_nccl_engine(const AllReduceCase& bench_case, const AllReduceBench& bench,
                                       const std::shared_ptr<NcclBench>& nccl) {
  if (Status status = nccl->choose(bench_case, bench); !status.ok()) return status;
  BenchEngine engine{
      .type = bench.type,
      .is_exact = bench_case.codec == "fp32" || bench_case.codec == kNcclFp32,
      .run = [nccl](std::uint64_t step,
                    Values values) { return nccl->sum(step, rows_of(values.count)); },
      .bytes_sent = [nccl] { return *nccl->bytes_sent(); },
      .load = [nccl](Values values) { return nccl->load(values); },
      .store = [nccl](Values values) { return nccl->store(values); }};
  if (!bench_case.topology) {
    engine.type = bench_case.codec == kNcclFp32 ? DataType::kFloat32 : DataType::kBfloat16;
    engine.bytes_sent = {};
  }
  return engine;
}

}  // namespace

EngineFactory mpi_engines(Transport& transport, const AllReduceBench& bench) {
  return [&transport, &bench](const AllReduceCase& bench_case) -> Expected<BenchEngine> {
    if (bench_case.topology) return make_fabric_engine(bench_case, bench, transport);
    if (bench_case.codec == kMpiFp32) {
      return BenchEngine{
          .is_exact = true, .run = [](std::uint64_t /*step*/, Values values) {
            return mpi_all_reduce_floats({static_cast<float*>(values.data), values.count});
          }};
    }
    return BenchEngine{
        .type = DataType::kBfloat16,
        .sums_integers = true,
        .run = [](std::uint64_t /*step*/, Values values) {
          return mpi_all_reduce_16bit({static_cast<std::uint16_t*>(values.data), values.count});
        }};
  };
}

Expected<EngineFactory> nccl_engines(Transport& rendezvous, const AllReduceBench& bench) {
  Expected<std::shared_ptr<NcclBench>> made = NcclBench::create(rendezvous);
  if (!made) return made.status();
  return EngineFactory([nccl = std::move(*made), &bench](const AllReduceCase& bench_case) {
    return make_nccl_engine(bench_case, bench, nccl);
  });
}

}  // namespace nf::cli
