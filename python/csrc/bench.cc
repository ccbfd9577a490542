#include "bench.h"

#include <chrono>
#include <memory>

#include "c10d_transport.h"
#include "nf/bench/all_reduce_print.h"
#include "nf/bench/all_reduce_request.h"
#include "process_group_engine.h"

namespace nf::torch_front {
namespace {

// The timeout of the group's own sums. A lost rank is detected immediately.
constexpr Duration kPatience = std::chrono::minutes(30);

}  // namespace

Status bench_all_reduce(const c10::intrusive_ptr<c10d::ProcessGroup>& training,
                        const c10::intrusive_ptr<c10d::ProcessGroup>& own,
                        std::string_view request) {
  const Expected<cli::AllReduceRequest> parsed = cli::parse_request(request);
  if (!parsed) return parsed.status();
  const Expected<cli::AllReduceBench> bench = cli::make_bench(*parsed);
  if (!bench) return bench.status();
  C10dTransport transport(own);
  const auto engine = std::make_shared<ProcessGroupEngine>(training, kPatience);
  const auto make_engine = [&](const cli::AllReduceCase& subject) -> Expected<cli::BenchEngine> {
    if (subject.topology) return cli::make_fabric_engine(subject, *bench, transport);
    return cli::BenchEngine{
        .type = subject.codec == cli::kC10dFp32 ? DataType::kFloat32 : DataType::kBfloat16,
        .is_exact = true,
        .run = [engine](std::uint64_t /*step*/, Values values) { return engine->sum(values); }};
  };
  Status status = cli::print_all_reduce_bench(transport, *bench, make_engine);
  if (!status.ok()) transport.abort(status);  // no rank may wait for this one
  transport.close();
  return status;
}

}  // namespace nf::torch_front
