// nf quality: the error of compressed sums, by codec and topology.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "neuron_fabric/codec.h"
#include "neuron_fabric/topology.h"
#include "nf/quality/measure.h"
#include "nf/quality/rank_gradients.h"
#include "nf/support/command.h"
#include "nf/support/progress.h"
#include "nf/support/table.h"

namespace nf::cli {
namespace {

constexpr std::uint32_t kMostRanks = 65'536;
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 32;

struct Options {
  GradientRequest gradients;
  std::vector<std::string> codecs;
  std::vector<std::string> topologies = {"ring", "tree", "direct"};
  std::uint32_t trials = 1;
  bool as_json = false;
};

// One line of the result.
struct Row {
  std::unique_ptr<Codec> codec;
  Topology topology = Topology::kRing;
  std::vector<TrialError> trials;
  double bytes = 0;  // of all trials
  MeanError error;
};

// Every codec and topology is made before the work starts: a misspelt one fails at once.
Expected<std::vector<Row>> rows_of(const Options& options, std::uint32_t ranks) {
  std::vector<std::string> codecs = options.codecs;
  if (codecs.empty()) {
    for (const CodecEntry& entry : builtin_codecs()) codecs.emplace_back(entry.example);
  }
  std::vector<Row> rows;
  for (const std::string& spelling : codecs) {
    for (const std::string& name : options.topologies) {
      Expected<std::unique_ptr<Codec>> codec = make_codec(spelling);
      if (!codec) return codec.status();
      const Expected<Topology> topology = find_topology(name);
      if (!topology) return topology.status();
      if (*topology == Topology::kHierarchical) {
        return Status(ErrorCode::kUnsupported,
                      "a hierarchical sum is exact within its groups: measure a ring with as many "
                      "ranks as there are groups");
      }
      if (ranks > (*codec)->most_ranks()) {
        return Status(ErrorCode::kBadConfig,
                      fmt::format("{} sums at most {} ranks, not {}; choose others with --codec",
                                  spelling, (*codec)->most_ranks(), ranks));
      }
      rows.push_back(
          {.codec = std::move(*codec), .topology = *topology, .trials = {}, .error = {}});
    }
  }
  return rows;
}

// An element crosses 2 (n - 1) links on its way to the sum and back.
double bits(const Row& row, const QualityGradients& gradients) {
  const double transfers = 2.0 * (gradients.ranks() - 1);
  if (transfers == 0) return 0;
  const auto trials = static_cast<double>(row.trials.size());
  return 8 * row.bytes / trials / (static_cast<double>(gradients.elements()) * transfers);
}

std::string json_line(const Row& row, const QualityGradients& gradients) {
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
      {"correlation", nullptr}};
  if (gradients.correlation()) json["correlation"] = *gradients.correlation();
  return json.dump();
}

void print_table(const std::vector<Row>& rows, const QualityGradients& gradients,
                 const Options& options) {
  fmt::print(
      "{}: {} elements of {} parameter{}, {} ranks, {} trial{}\n"
      "bits         an element and transfer, statistics and frames included\n"
      "error        of the sum, squared, over the exact sum squared (vnmse)\n"
      "+/-          95 % half width, between trials\n"
      "parameters   vnmse of each parameter: mean by their sizes, and the worst\n"
      "slope        of the sum against the exact one, with its 95 % half width\n"
      "dropped      share of the exact sum squared that got no bits\n"
      "\n",
      printable(gradients.name()), grouped(gradients.elements()), gradients.parameters().size(),
      gradients.parameters().size() == 1 ? "" : "s", gradients.ranks(), options.trials,
      options.trials == 1 ? "" : "s");
  Table table({{.title = "codec", .is_text = true},
               {.title = "topology", .is_text = true},
               {.title = "bits"},
               {.title = "error"},
               {.title = "+/-"},
               {.title = "parameters"},
               {.title = "worst"},
               {.title = "slope"},
               {.title = "+/-"},
               {.title = "dropped"},
               {.title = "cosine"}});
  const auto scientific = [](double value, int digits = 3) {
    return std::isnan(value) ? std::string("-") : fmt::format("{:.{}e}", value, digits);
  };
  for (const Row& row : rows) {
    const MeanError& error = row.error;
    table.add({row.codec->spec().to_string(), std::string(to_string(row.topology)),
               fmt::format("{:.3f}", bits(row, gradients)), scientific(error.vnmse),
               scientific(error.vnmse_ci), scientific(error.parameter_vnmse),
               scientific(error.worst_parameter_vnmse), fmt::format("{:.5f}", error.slope),
               scientific(error.slope_ci, 1), fmt::format("{:.5f}", error.dropped),
               fmt::format("{:.5f}", error.cosine)});
  }
  fmt::print("{}", table.text());
}

Status measure(const Options& options, QualityGradients& gradients, std::vector<Row>& rows) {
  Progress progress(rows.size() * options.trials);
  for (std::uint32_t trial = 0; trial < options.trials; ++trial) {
    progress.show("making gradients");
    const Expected<const RankValues*> values = gradients.trial(trial);
    if (!values) return values.status();
    for (Row& row : rows) {
      progress.step();
      const QualityCase subject{.codec = row.codec.get(),
                                .topology = row.topology,
                                .ranks = gradients.ranks(),
                                .trial = trial};
      Expected<QualityTrial> measured =
          measure_quality(subject, **values, gradients.parameters(), progress);
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

// An infinite error is no figure to be read past.
void warn(const Row& row, const QualityGradients& gradients) {
  if (std::isfinite(row.error.worst_parameter_vnmse)) return;
  fmt::print(stderr, "nf: {} over {} makes something of nothing, or no number, in parameter '{}'\n",
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
    warn(row, **gradients);
    if (options.as_json) fmt::print("{}\n", json_line(row, **gradients));
  }
  if (!options.as_json) print_table(*rows, **gradients, options);
  return {};
}

}  // namespace

void add_quality(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("quality", "the error of compressed sums");
  auto options = std::make_shared<Options>();
  command->add_option("--gradients", options->gradients.text, "what to sum, as below")
      ->required()
      ->type_name("FILE.npy|mixture:SEED|gaussian:SEED");
  command->add_option("--ranks", options->gradients.ranks, "ranks; all of a file's, or 8")
      ->type_name("N")
      ->check(CLI::Range(std::uint32_t{1}, kMostRanks).description(""));
  command->add_option("--codec", options->codecs, "codecs to measure; without it, all")
      ->type_name("A,B...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--topology", options->topologies, "ways to sum")
      ->type_name("A,B...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      ->add_option("--elements", options->gradients.elements,
                   "values a rank; all of a file's, or 8388608")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, kMostElements).description(""));
  command
      ->add_option("--correlation", options->gradients.correlation,
                   "of any two ranks; 0.5 for mixture, 0 for gaussian")
      ->type_name("R")
      ->check(CLI::Range(0.0, 1.0).description(""));
  command->add_option("--trials", options->trials, "times to repeat, with other draws")
      ->type_name("N")
      ->check(CLI::Range(std::uint32_t{1}, std::uint32_t{10'000}).description(""))
      ->capture_default_str();
  command->add_flag("--json", options->as_json, "one JSON object a line instead of a table");
  command->footer(
      "mixture:SEED is the log-normal mixture published with DynamiQ, gaussian:SEED normal values "
      "of\n"
      "deviation 1. Each trial takes the next seed.\n"
      "\n"
      "FILE.npy is float32 of shape (ranks, elements), in C order. A FILE.json beside it names "
      "the\n"
      "parameters: {\"parameters\": [{\"name\": ..., \"shape\": [...]} or {\"name\": ..., "
      "\"count\": N}, ...]}.\n"
      "\n"
      "Topologies: ring, tree, direct, halving_doubling, endpoint.");
  command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace nf::cli
