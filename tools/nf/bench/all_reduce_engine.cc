#include "nf/bench/all_reduce_engine.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "neuron_fabric/all_reduce.h"
#include "neuron_fabric/reduce_scatter.h"

namespace nf::cli {
namespace {

// Every rank owns one of the equal parts of the values.
class ScatterBench {
 public:
  ScatterBench(std::unique_ptr<ReduceScatter> sum, std::unique_ptr<AllReduce> gather,
               const Transport& transport)
      : sum_(std::move(sum)),
        gather_(std::move(gather)),
        rank_(transport.rank()),
        parts_(transport.ranks()) {}

  Status run(std::uint64_t step, Values values) {
    cut(values);
    std::vector<Shard> shards;
    for (const Gradient& part : parts_) shards.push_back({std::span(&part, 1)});
    return sum_->run({.step = step, .shards = shards});
  }

  // Sends the sum of every shard to all ranks: an exact all-reduce with zeros in place of the other
  // shards.
  Status gather(Values values) {
    cut(values);
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      const Values other = parts_[part].values;
      if (part != rank_ && other.count > 0) {
        std::memset(other.data, 0, other.count * size_of(other.type));
      }
    }
    const Gradient whole{.parameter = parameter_key("bench"), .values = values};
    return gather_->run({.gradients = {&whole, 1}});
  }

  std::uint64_t bytes_sent() const { return sum_->traffic().total(); }

 private:
  void cut(Values values) {
    const std::size_t size = (values.count + parts_.size() - 1) / parts_.size();
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      const std::size_t first = std::min(part * size, values.count);
      auto* const data = static_cast<std::byte*>(values.data) + first * size_of(values.type);
      parts_[part] = {.parameter = parameter_key("bench"),
                      .values = {data, std::min(size, values.count - first), values.type}};
    }
  }

  const std::unique_ptr<ReduceScatter> sum_;
  const std::unique_ptr<AllReduce> gather_;
  const std::uint32_t rank_;
  std::vector<Gradient> parts_;
};

Expected<BenchEngine> make_scatter_engine(const AllReduceOptions& options, DataType type,
                                          Transport& transport) {
  Expected<std::unique_ptr<ReduceScatter>> sum = ReduceScatter::create(transport, options);
  if (!sum) return sum.status();
  Expected<std::unique_ptr<AllReduce>> gather = AllReduce::create(transport, {});
  if (!gather) return gather.status();
  const auto bench = std::make_shared<ScatterBench>(std::move(*sum), std::move(*gather), transport);
  return BenchEngine{
      .type = type,
      .is_exact = options.codec == "fp32",
      .run = [bench](std::uint64_t step, Values values) { return bench->run(step, values); },
      .bytes_sent = [bench] { return bench->bytes_sent(); },
      .store = [bench](Values values) { return bench->gather(values); }};
}

}  // namespace

Expected<BenchEngine> make_fabric_engine(const AllReduceCase& bench_case,
                                         const AllReduceBench& bench, Transport& transport) {
  AllReduceOptions options{.codec = bench_case.codec,
                           .topology = *bench_case.topology,
                           .host_group_size = bench.host_group_size,
                           .seed = 1};
  options.tile_bytes = bench.tile_bytes.value_or(options.tile_bytes);
  if (bench.collective == Collective::kReduceScatter) {
    return make_scatter_engine(options, bench.type, transport);
  }
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
