// nf plan: the traffic of a model per route, or the routes of its parameters under a profile.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "neuron_fabric/codec.h"
#include "nf/plan/explain.h"
#include "nf/plan/shapes.h"
#include "nf/plan/traffic.h"
#include "nf/support/command.h"
#include "nf/support/numbers.h"
#include "nf/support/progress.h"
#include "nf/support/table.h"
#include "nf/support/usage.h"
#include "runtime/glob.h"

namespace nf::cli {
namespace {

constexpr std::uint32_t kMaxRanks = 65'536;

struct Options {
  std::string shapes;
  std::vector<std::string> routes;
  std::uint32_t ranks = 8;
  bool is_explained = false;
  ExplainRequest explain;
  bool as_json = false;
};

// All parameters at one bit, except the classifier of a torchvision model.
std::vector<Route> default_routes() { return {{"*", "g_binary"}, {"fc.*", "fp32"}}; }

// Fails if a pattern matches no parameter or a codec is unknown.
Expected<std::vector<Route>> parse_routes(const std::vector<std::string>& texts,
                                          const ModelShapes& model) {
  std::vector<Route> routes;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return Status(ErrorCode::kBadConfig,
                    fmt::format("route '{}' is not PATTERN=CODEC, such as 'fc.*=fp32'", text));
    }
    const Route route{.pattern = text.substr(0, equals), .codec = text.substr(equals + 1)};
    if (const auto codec = make_codec(route.codec); !codec) return codec.status();
    std::vector<std::string_view> names;
    bool has_match = false;
    for (const ParameterShape& parameter : model.parameters) {
      has_match = has_match || matches(route.pattern, parameter.name);
      names.push_back(parameter.name);
    }
    if (!has_match) {
      const std::string hint(nearest(route.pattern, names));
      return Status(
          ErrorCode::kBadConfig,
          fmt::format("route '{}' matches no parameter of {}{}", route.pattern,
                      printable(model.name),
                      hint.empty() ? "" : fmt::format("; did you mean '{}'?", printable(hint))));
    }
    routes.push_back(route);
  }
  return routes;
}

double share(std::uint64_t bytes, std::uint64_t of) {
  return of == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(of);
}

RouteTraffic sum_of(const std::vector<RouteTraffic>& routes) {
  RouteTraffic sum{.route = {.pattern = "total", .codec = ""}};
  for (const RouteTraffic& route : routes) {
    sum.parameters += route.parameters;
    sum.values += route.values;
    sum.codes += route.codes;
    sum.scales += route.scales;
    sum.statistics += route.statistics;
    sum.back += route.back;
  }
  return sum;
}

void print_json(const ModelShapes& model, const std::vector<RouteTraffic>& routes,
                std::uint32_t ranks) {
  const std::uint64_t dense = 4 * model.count();
  for (const RouteTraffic& route : routes) {
    const nlohmann::ordered_json json{{"model", model.name},
                                      {"route", route.route.pattern},
                                      {"codec", route.route.codec},
                                      {"ranks", ranks},
                                      {"parameters", route.parameters},
                                      {"values", route.values},
                                      {"fp32_bytes", 4 * route.values},
                                      {"codes_bytes", route.codes},
                                      {"scales_bytes", route.scales},
                                      {"statistics_bytes", route.statistics},
                                      {"back_bytes", route.back},
                                      {"bytes", route.both_ways()},
                                      {"codes_ratio", share(route.codes, dense)},
                                      {"scales_ratio", share(route.scales, dense)},
                                      {"statistics_ratio", share(route.statistics, dense)},
                                      {"back_ratio", share(route.back, dense)},
                                      {"bytes_ratio", share(route.both_ways(), 2 * dense)}};
    fmt::print("{}\n", json.dump());
  }
}

// Adds two lines per route: bytes, and below them their share.
void add_cells(Table& table, const RouteTraffic& route, std::uint64_t dense) {
  const auto percent = [](std::uint64_t bytes, std::uint64_t of) {
    return fmt::format("{:.2f} %", 100 * share(bytes, of));
  };
  table.add({printable(route.route.pattern), route.route.codec, grouped(route.values),
             grouped(route.codes), grouped(route.scales), grouped(route.statistics),
             grouped(route.back), grouped(route.both_ways())});
  table.add({"", "", percent(4 * route.values, dense), percent(route.codes, dense),
             percent(route.scales, dense), percent(route.statistics, dense),
             percent(route.back, dense), percent(route.both_ways(), 2 * dense)});
}

void print_table(const ModelShapes& model, const std::vector<RouteTraffic>& routes,
                 std::uint32_t ranks) {
  const std::uint64_t dense = 4 * model.count();
  Table table({{.title = "route", .is_text = true},
               {.title = "codec", .is_text = true},
               {.title = "values"},
               {.title = "codes"},
               {.title = "scales"},
               {.title = "statistics"},
               {.title = "back"},
               {.title = "both ways"}});
  for (const RouteTraffic& route : routes) add_cells(table, route, dense);
  fmt::print(
      "{}: {} values, {} bytes as FP32\n"
      "Bytes per step between one of {} ranks and a reducer, from encoded messages:\n"
      "codes       of the contribution: codes of the values\n"
      "scales      of the contribution: scales and padding\n"
      "statistics  sent before the contribution; the same number of bytes is received\n"
      "back        messages received with the sum of all ranks\n"
      "%           of the model as FP32 one way; for `both ways`, of FP32 both ways\n"
      "\n{}",
      printable(model.name), grouped(model.count()), grouped(dense), ranks, table.text());
}

Status run(const Options& options) {
  const Expected<ModelShapes> model = read_shapes(options.shapes);
  if (!model) return model.status();
  if (options.is_explained) {
    ExplainRequest request = options.explain;
    request.as_json = options.as_json;
    return explain_plan(*model, request);
  }
  Expected<std::vector<Route>> routes = parse_routes(options.routes, *model);
  if (!routes) return routes.status();
  if (options.routes.empty()) *routes = default_routes();
  Progress progress(routes->size());
  Expected<std::vector<RouteTraffic>> traffic =
      measure_traffic(*model, *routes, options.ranks, progress);
  progress.clear();
  if (!traffic) return traffic.status();
  traffic->push_back(sum_of(*traffic));
  (options.as_json ? print_json : print_table)(*model, *traffic, options.ranks);
  return {};
}

}  // namespace

void add_plan(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("plan", "show the traffic of a model per route");
  auto options = std::make_shared<Options>();
  command->add_option("--shapes", options->shapes, "the parameters of the model; see below")
      ->required()
      ->type_name("FILE");
  auto* route = command->add_option("--route", options->routes, "codec of parameters; see below")
                    ->type_name("PATTERN=CODEC")
                    ->allow_extra_args(false);
  auto* ranks = add_number(*command, "--ranks", options->ranks, {.min = 1, .max = kMaxRanks},
                           "ranks in the job");
  auto* explain = command->add_flag("--explain", options->is_explained,
                                    "show the route of each parameter under a profile, and why");
  explain->excludes(route)->excludes(ranks);
  command
      ->add_option("--profile", options->explain.profile,
                   "profile for --explain; default: that of a job without a profile")
      ->type_name("PROFILE")
      ->needs(explain);
  add_number(*command, "--step", options->explain.step, {}, "training step for --explain")
      ->needs(explain);
  add_json_flag(*command, options->as_json);
  command->footer(
      "A route is a glob on parameter names and a codec, for example 'layer4.*=waterfill:4'. If\n"
      "several routes match a parameter, the last one applies; if none matches, it is sent as\n"
      "fp32. Default: '*=g_binary' and 'fc.*=fp32'.\n"
      "\n"
      "FILE is {\"name\": ..., \"parameters\": [{\"name\": ..., \"shape\": [...], "
      "\"module_type\": ...},\n"
      "...]}: the trainable parameters in the order of the model, with the types of the modules "
      "that\n"
      "own them. To write it from PyTorch:\n"
      "  neuron_fabric.write_shapes(model, \"FILE\")\n"
      "If no parameter has a \"module_type\", --explain without --profile guesses norms and\n"
      "embeddings from shapes and names.");
  command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace nf::cli
