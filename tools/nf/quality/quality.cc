// nf quality: the error of compressed sums per codec and topology.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "neuron_fabric/codec.h"
#include "neuron_fabric/collective.h"
#include "neuron_fabric/topology.h"
#include "nf/quality/felt_weights.h"
#include "nf/quality/measure.h"
#include "nf/quality/rank_gradients.h"
#include "nf/support/command.h"
#include "nf/support/numbers.h"
#include "nf/support/progress.h"
#include "nf/support/table.h"
#include "nf/support/usage.h"

namespace nf::cli {
namespace {

constexpr std::uint32_t kMaxRanks = 65'536;
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 32;
constexpr Topology kDefaultTopologies[] = {Topology::kRing, Topology::kTree, Topology::kDirect};

struct Options {
  GradientRequest gradients;
  std::string second_moment;  // a file, or empty
  std::string collective = std::string(to_string(Collective::kAllReduce));
  std::vector<std::string> codecs;
  std::vector<std::string> topologies;
  std::uint32_t trials = 1;
  bool as_json = false;
};

// One row of the result.
struct Row {
  Collective collective = Collective::kAllReduce;
  std::unique_ptr<Codec> codec;
  Topology topology = Topology::kRing;
  std::vector<TrialError> trials;
  double bytes = 0;  // of all trials
  MeanError error;
};

// Creates every codec before the measurement, so that unknown codecs and topologies fail
// immediately.
Expected<std::vector<Row>> rows_of(const Options& options, std::uint32_t ranks) {
  std::vector<std::string> codecs = options.codecs;
  if (codecs.empty()) {
    for (const CodecEntry& entry : builtin_codecs()) codecs.emplace_back(entry.example);
  }
  const Expected<Collective> collective = find_collective(options.collective);
  if (!collective) return collective.status();
  std::vector<std::string> topologies = options.topologies;
  if (topologies.empty()) {
    for (const Topology topology : kDefaultTopologies) {
      if (check_topology(*collective, topology).ok()) topologies.emplace_back(to_string(topology));
    }
  }
  std::vector<Row> rows;
  for (const std::string& spelling : codecs) {
    for (const std::string& name : topologies) {
      Expected<std::unique_ptr<Codec>> codec = make_codec(spelling);
      if (!codec) return codec.status();
      const Expected<Topology> topology = find_topology(name);
      if (!topology) return topology.status();
      if (*topology == Topology::kHierarchical) {
        return Status(ErrorCode::kUnsupported,
                      "the hierarchical topology is exact within a host group; measure a ring with "
                      "one rank per host group instead");
      }
      if (ranks > (*codec)->max_ranks()) {
        return Status(
            ErrorCode::kBadConfig,
            fmt::format("codec '{}' sums at most {} ranks, not {}; select others with --codec",
                        spelling, (*codec)->max_ranks(), ranks));
      }
      NF_RETURN_IF_ERROR(check_topology(*collective, *topology));
      rows.push_back({.collective = *collective,
                      .codec = std::move(*codec),
                      .topology = *topology,
                      .trials = {},
                      .error = {}});
    }
  }
  return rows;
}

// Each element is transferred n - 1 times towards its owner, and as often from there in an
// all-reduce.
double bits(const Row& row, const QualityGradients& gradients) {
  const double halves = row.collective == Collective::kAllReduce ? 2 : 1;
  const double transfers = halves * (gradients.ranks() - 1);
  if (transfers == 0) return 0;
  const auto trials = static_cast<double>(row.trials.size());
  return 8 * row.bytes / trials / (static_cast<double>(gradients.elements()) * transfers);
}

std::string json_line(const Row& row, const QualityGradients& gradients, bool has_felt) {
  const MeanError& error = row.error;
  nlohmann::ordered_json json{
      {"codec", row.codec->spec().to_string()},
      {"bits", bits(row, gradients)},
      {"ranks", gradients.ranks()},
      {"topology", to_string(row.topology)},
      {"elements", gradients.elements()},
      {"trials", row.trials.size()},
      {"vnmse", error.vnmse},
      {"parameter_vnmse", error.parameter_vnmse},
      {"worst_parameter_vnmse", error.worst_parameter_vnmse},
      {"slope", error.slope},
      {"slope_ci", error.slope_ci},
      {"dropped", error.dropped},
      {"cosine", error.cosine},
      {"vnmse_ci", error.vnmse_ci},
      {"worst_parameter", gradients.parameters()[error.worst_parameter].name},
      {"gradients", gradients.name()},
      {"correlation", nullptr},
      {"collective", to_string(row.collective)},
      {"felt", nullptr}};
  if (gradients.correlation()) json["correlation"] = *gradients.correlation();
  if (has_felt) json["felt"] = error.felt;
  return json.dump();
}

void print_table(const std::vector<Row>& rows, const QualityGradients& gradients,
                 const Options& options) {
  const bool has_felt = !options.second_moment.empty();
  fmt::print(
      "{}: {} elements of {} parameter{}, {} ranks, {} trial{}, {}\n"
      "bits         per element and transfer, including statistics and frames\n"
      "error        squared error of the sum over the squared exact sum (vnmse)\n"
      "+/-          95 % confidence half-width over the trials\n"
      "parameters   vnmse per parameter: mean weighted by size, and the worst\n"
      "slope        of the sum against the exact sum, with its 95 % half-width\n"
      "dropped      share of the squared exact sum that got no bits\n"
      "{}\n",
      printable(gradients.name()), grouped(gradients.elements()), gradients.parameters().size(),
      gradients.parameters().size() == 1 ? "" : "s", gradients.ranks(), options.trials,
      options.trials == 1 ? "" : "s", options.collective,
      has_felt ? "felt         mean squared error of the mean gradient over v\n" : "");
  std::vector<Column> columns = {{.title = "codec", .is_text = true},
                                 {.title = "topology", .is_text = true},
                                 {.title = "bits"},
                                 {.title = "error"},
                                 {.title = "+/-"},
                                 {.title = "parameters"},
                                 {.title = "worst"},
                                 {.title = "slope"},
                                 {.title = "+/-"},
                                 {.title = "dropped"},
                                 {.title = "cosine"}};
  if (has_felt) columns.push_back({.title = "felt"});
  Table table(std::move(columns));
  const auto scientific = [](double value, int digits = 3) {
    return std::isnan(value) ? std::string("-") : fmt::format("{:.{}e}", value, digits);
  };
  for (const Row& row : rows) {
    const MeanError& error = row.error;
    std::vector<std::string> cells = {row.codec->spec().to_string(),
                                      std::string(to_string(row.topology)),
                                      fmt::format("{:.3f}", bits(row, gradients)),
                                      scientific(error.vnmse),
                                      scientific(error.vnmse_ci),
                                      scientific(error.parameter_vnmse),
                                      scientific(error.worst_parameter_vnmse),
                                      fmt::format("{:.5f}", error.slope),
                                      scientific(error.slope_ci, 1),
                                      fmt::format("{:.5f}", error.dropped),
                                      fmt::format("{:.5f}", error.cosine)};
    if (has_felt) cells.push_back(scientific(error.felt));
    table.add(std::move(cells));
  }
  fmt::print("{}", table.text());
}

Status measure(const Options& options, QualityGradients& gradients, std::vector<Row>& rows) {
  std::vector<float> felt_weights;
  if (!options.second_moment.empty()) {
    Expected<std::vector<float>> read =
        read_felt_weights(options.second_moment, gradients.parameters(), gradients.ranks());
    if (!read) return read.status();
    felt_weights = std::move(*read);
  }
  Progress progress(rows.size() * options.trials);
  for (std::uint32_t trial = 0; trial < options.trials; ++trial) {
    progress.show("generating gradients");
    const Expected<const RankValues*> values = gradients.trial(trial);
    if (!values) return values.status();
    for (Row& row : rows) {
      progress.step();
      const QualityCase quality_case{.collective = row.collective,
                                     .codec = row.codec.get(),
                                     .topology = row.topology,
                                     .ranks = gradients.ranks(),
                                     .trial = trial,
                                     .felt_weights = felt_weights};
      Expected<QualityTrial> measured =
          measure_quality(quality_case, **values, gradients.parameters(), progress);
      if (!measured) {
        return {measured.status().code(),
                fmt::format("{} over {}: {}", row.codec->spec().to_string(),
                            to_string(row.topology), measured.status().message())};
      }
      row.trials.push_back(std::move(measured->error));
      row.bytes += static_cast<double>(measured->bytes);
    }
  }
  return {};
}

// Infinite errors are easily overlooked in the table.
void warn_if_infinite(const Row& row, const QualityGradients& gradients) {
  if (std::isfinite(row.error.worst_parameter_vnmse)) return;
  fmt::print(stderr,
             "nf: {} over {}: the error of parameter '{}' is infinite: its sum is NaN, or non-zero "
             "although the exact sum is zero\n",
             row.codec->spec().to_string(), to_string(row.topology),
             printable(gradients.parameters()[row.error.worst_parameter].name));
}

Status run(const Options& options) {
  Expected<std::unique_ptr<QualityGradients>> gradients = QualityGradients::open(options.gradients);
  if (!gradients) return gradients.status();
  Expected<std::vector<Row>> rows = rows_of(options, (*gradients)->ranks());
  if (!rows) return rows.status();
  NF_RETURN_IF_ERROR(measure(options, **gradients, *rows));
  for (Row& row : *rows) {
    row.error = mean_error(row.trials, (*gradients)->parameters());
    warn_if_infinite(row, **gradients);
    if (options.as_json)
      fmt::print("{}\n", json_line(row, **gradients, !options.second_moment.empty()));
  }
  if (!options.as_json) print_table(*rows, **gradients, options);
  return {};
}

}  // namespace

void add_quality(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("quality", "measure the error of compressed sums");
  auto options = std::make_shared<Options>();
  command->add_option("--gradients", options->gradients.text, "the values to sum; see below")
      ->required()
      ->type_name("FILE.npy|mixture:SEED|gaussian:SEED");
  add_number(*command, "--ranks", options->gradients.ranks, {.min = 1, .max = kMaxRanks},
             fmt::format("ranks; default: all of the file, or {}", kDefaultRanks));
  add_names(*command, "--codec", options->codecs, "codecs to measure; default: all");
  add_names(*command, "--topology", options->topologies,
            fmt::format("topologies to measure; default: {}, as far as supported",
                        to_string(std::span(kDefaultTopologies))));
  command
      ->add_option("--collective", options->collective, "all_reduce, or reduce_scatter by shards")
      ->type_name("NAME")
      ->capture_default_str();
  add_number(*command, "--elements", options->gradients.elements, {.min = 1, .max = kMaxElements},
             fmt::format("values per rank; default: all of the file, or {}", kDefaultElements));
  add_number(
      *command, "--correlation", options->gradients.correlation, {.min = 0, .max = 1},
      fmt::format("correlation between any two ranks; default: {} for mixture, {} for gaussian",
                  kMixtureCorrelation, kGaussianCorrelation))
      ->type_name("R");
  command
      ->add_option("--second-moment", options->second_moment,
                   "v of an optimizer, such as Adam's exp_avg_sq: adds the error that it feels")
      ->type_name("FILE.npy");
  add_number(*command, "--trials", options->trials, {.min = 1, .max = 10'000},
             "repetitions, with different random numbers");
  add_json_flag(*command, options->as_json);
  command->footer(
      "mixture:SEED generates the log-normal mixture published with DynamiQ, gaussian:SEED normal\n"
      "values with standard deviation 1. Each trial uses the next seed.\n"
      "\n"
      "FILE.npy is float32 of shape (ranks, elements) in C order. An optional FILE.json next to "
      "it\n"
      "names the parameters:\n"
      "  {\"parameters\": [{\"name\": ..., \"shape\": [...]} or {\"name\": ..., "
      "\"count\": N}, ...]}.\n"
      "\n"
      "Topologies: " +
      to_string(flat_topologies()) + ".");
  command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace nf::cli
