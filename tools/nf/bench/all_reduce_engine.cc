#include "nf/bench/all_reduce_engine.h"

#include <memory>
#include <utility>

#include "neuron_fabric/all_reduce.h"

namespace nf::cli {

Expected<BenchEngine> make_fabric_engine(const AllReduceCase& bench_case,
                                         const AllReduceBench& bench, Transport& transport) {
  AllReduceOptions options{.codec = bench_case.codec,
                           .topology = *bench_case.topology,
                           .host_group_size = bench.host_group_size,
                           .seed = 1};
  options.tile_bytes = bench.tile_bytes.value_or(options.tile_bytes);
  Expected<std::unique_ptr<AllReduce>> made = AllReduce::create(transport, options);
  if (!made) return made.status();
  const std::shared_ptr<AllReduce> sum = std::move(*made);
  return BenchEngine{.type = bench.type,
                     .is_exact = bench_case.codec == "fp32",
                     .run =
                         [sum](std::uint64_t step, Values values) {
                           const Gradient gradient{.parameter = parameter_key("bench"),
                                                   .values = values,
                                                   .rows = rows_of(values.count)};
                           return sum->run({.step = step, .gradients = {&gradient, 1}});
                         },
                     .bytes_sent = [sum] { return sum->traffic().total(); }};
}

std::size_t rows_of(std::size_t count) {
  std::size_t rows = 1;
  while (rows * rows * 4 <= count && count % (rows * 2) == 0) rows *= 2;
  return rows;
}

}  // namespace nf::cli
