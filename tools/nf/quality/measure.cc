#include "nf/quality/measure.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <string>
#include <thread>

#include "collective/simulate.h"
#include "neuron_fabric/all_reduce.h"
#include "nf/quality/threads.h"
#include "nf/support/table.h"

namespace nf::cli {
namespace {

constexpr std::uint64_t kSeed = 1;
// Blocks of at least this many values are assumed to be independent of each other.
constexpr std::size_t kMinBlock = 256;

std::vector<SimulatedParameter> keyed(std::span<const ParameterShape> parameters) {
  std::vector<SimulatedParameter> keyed;
  for (const ParameterShape& parameter : parameters) {
    keyed.push_back({.key = parameter_key(parameter.name), .count = parameter.count});
  }
  return keyed;
}

// Shows the percentage of finished parts. Only the thread that created it prints.
class Percent {
 public:
  Percent(Progress& progress, std::string what, std::size_t parts)
      : progress_(progress), what_(std::move(what)), parts_(parts) {}

  void finish_part() {
    const std::size_t done = ++done_;
    if (std::this_thread::get_id() != owner_) return;
    progress_.show(fmt::format("{} {} %", what_, 100 * done / parts_));
  }

 private:
  Progress& progress_;
  const std::string what_;
  const std::size_t parts_;
  const std::thread::id owner_ = std::this_thread::get_id();
  std::atomic<std::size_t> done_ = 0;
};

// The error of the part of a parameter that is in one chunk.
struct ChunkError {
  std::size_t parameter = 0;
  ErrorSums sums;
};

struct Chunk {
  std::vector<ChunkError> errors;
  std::uint64_t bytes = 0;
};

class Measurement {
 public:
  Measurement(const QualityCase& quality_case, SimulatedAllReduce& sum,
              std::span<const ParameterShape> parameters)
      : case_(quality_case), sum_(sum), by_parameter_(parameters.size()) {
    std::size_t start = 0;
    for (const ParameterShape& parameter : parameters) {
      starts_.push_back(start);
      start += parameter.count;
    }
    const std::size_t granule = quality_case.codec->granule();
    block_ = (kMinBlock + granule - 1) / granule * granule;
  }

  Status run(Progress& progress) {
    const std::string name = fmt::format("{} {}, trial {}:", case_.codec->spec().to_string(),
                                         to_string(case_.topology), case_.trial + 1);
    Percent statistics(progress, name + " statistics", case_.ranks);
    NF_RETURN_IF_ERROR(for_each_part(case_.ranks, [&](std::size_t rank) {
      Status status = sum_.compute_statistics(static_cast<std::uint32_t>(rank));
      statistics.finish_part();
      return status;
    }));
    NF_RETURN_IF_ERROR(sum_.make_plan());
    std::vector<Chunk> chunks(sum_.chunks());
    Percent sums(progress, name + " sum", chunks.size());
    NF_RETURN_IF_ERROR(for_each_part(chunks.size(), [&](std::size_t chunk) {
      Status status = sum_chunk(static_cast<std::uint32_t>(chunk), chunks[chunk]);
      sums.finish_part();
      return status;
    }));
    bytes_ = sum_.statistics_bytes();
    for (const Chunk& chunk : chunks) {
      bytes_ += chunk.bytes;
      for (const ChunkError& error : chunk.errors) by_parameter_[error.parameter] += error.sums;
    }
    return {};
  }

  std::uint64_t bytes() const { return bytes_; }
  std::span<const ErrorSums> by_parameter() const { return by_parameter_; }

 private:
  Status sum_chunk(std::uint32_t chunk, Chunk& result) {
    const Expected<std::uint64_t> bytes = sum_.sum_chunk(chunk, [&](const SummedPiece& summed) {
      const std::span<const float> weights =
          case_.felt_weights.empty()
              ? std::span<const float>()
              : case_.felt_weights.subspan(starts_[summed.piece.parameter] + summed.piece.first,
                                           summed.piece.count);
      result.errors.push_back({summed.piece.parameter, measure_piece(summed, block_, weights)});
    });
    if (!bytes) return bytes.status();
    result.bytes = *bytes;
    return {};
  }

  const QualityCase& case_;
  SimulatedAllReduce& sum_;
  std::size_t block_ = 0;
  std::vector<std::size_t> starts_;  // of parameters among all values
  std::uint64_t bytes_ = 0;
  std::vector<ErrorSums> by_parameter_;
};

}  // namespace

Expected<QualityTrial> measure_quality(const QualityCase& quality_case, const RankValues& values,
                                       std::span<const ParameterShape> parameters,
                                       Progress& progress) {
  const SimulationOptions options{.collective = quality_case.collective,
                                  .topology = quality_case.topology,
                                  .ranks = quality_case.ranks,
                                  .seed = kSeed,
                                  .step = quality_case.trial};
  Expected<SimulatedAllReduce> sum =
      SimulatedAllReduce::create(*quality_case.codec, options, keyed(parameters), values);
  if (!sum) return sum.status();
  Measurement measurement(quality_case, *sum, parameters);
  NF_RETURN_IF_ERROR(measurement.run(progress));
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (std::isfinite(measurement.by_parameter()[p].energy)) continue;
    return Status(ErrorCode::kBadConfig,
                  fmt::format("the gradients of parameter '{}' are not finite (NaN or Inf): the "
                              "error is undefined",
                              printable(parameters[p].name)));
  }
  return QualityTrial{.error = trial_error(measurement.by_parameter()),
                      .bytes = measurement.bytes()};
}

}  // namespace nf::cli
