#include "nf/plan/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "neuron_fabric/binding.h"
#include "nf/support/table.h"
#include "runtime/plan.h"
#include "runtime/region_match.h"

namespace nf::cli {
namespace {

// The defaults of DDP: the first bucket is small, so that communication starts early.
constexpr std::uint64_t kFirstBucketBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kBucketBytes = std::uint64_t{25} << 20;

// Fills buckets in the order of the gradients: the last parameter first. A bucket is full when it
// reaches its size.
std::vector<std::vector<BucketSlot>> fill_buckets(const ModelShapes& model) {
  std::vector<std::vector<BucketSlot>> buckets;
  std::uint64_t bucket_bytes = 0;
  std::uint64_t offset = 0;
  for (std::size_t i = model.parameters.size(); i-- > 0;) {
    if (4 * offset >= bucket_bytes) {
      bucket_bytes = buckets.empty() ? kFirstBucketBytes : kBucketBytes;
      offset = 0;
      buckets.emplace_back();
    }
    const std::uint64_t count = model.parameters[i].count;
    buckets.back().push_back(
        {.parameter = static_cast<std::uint32_t>(i), .offset = offset, .count = count});
    offset += count;
  }
  return buckets;
}

// One segment.
struct Row {
  std::size_t bucket = 0;
  BucketSlot slot;
  std::string region;
  std::string route;
  std::string why;
};

std::string pattern_text(const RegionMatch& match) {
  std::string text;
  if (match.name != nullptr) text = *match.name;
  if (match.module_type != nullptr) {
    text += (text.empty() ? "" : " and ") + fmt::format("module type {}", *match.module_type);
  }
  return text.empty() ? "the rest" : text;
}

std::string why(const Binding& binding, const Segment& segment, std::string_view region_route) {
  const Region& region = binding.profile().regions[segment.region];
  std::string text = pattern_text(*match(region, binding.parameters()[segment.slot.parameter]));
  if (region_route == kDenseRoute) {
    text += ", dense";
  } else if (binding.is_small(segment.slot.parameter)) {
    text += ", small";
  }
  return text;
}

// The planner's result at a step at which every region is admitted, in the order of the buckets.
std::vector<Row> rows_of(const Binding& binding, const ModelShapes& model, std::uint64_t step) {
  std::vector<std::string> routes;
  for (std::uint32_t i = 0; i < binding.profile().regions.size(); ++i) {
    routes.push_back(binding.route(i, step));
  }
  std::vector<Row> rows;
  const auto buckets = fill_buckets(model);
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    const auto add = [&](const Segment& segment, std::string_view route) {
      rows.push_back({.bucket = bucket,
                      .slot = segment.slot,
                      .region = binding.profile().regions[segment.region].name,
                      .route = std::string(route),
                      .why = why(binding, segment, routes[segment.region])});
    };
    const Plan plan = make_plan(binding, buckets[bucket], routes);
    for (const Segment& segment : plan.dense) add(segment, kDenseRoute);
    for (const RoutedSegments& routed : plan.low_bit) {
      for (const Segment& segment : routed.segments) add(segment, routed.route);
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair(a.bucket, a.slot.offset) < std::pair(b.bucket, b.slot.offset);
  });
  return rows;
}

std::string rows_table(const std::vector<Row>& rows, const ModelShapes& model) {
  Table table({{.title = "bucket"},
               {.title = "offset"},
               {.title = "length"},
               {.title = "parameter", .is_text = true},
               {.title = "region", .is_text = true},
               {.title = "route", .is_text = true},
               {.title = "why", .is_text = true}});
  for (const Row& row : rows) {
    table.add({std::to_string(row.bucket), grouped(row.slot.offset), grouped(row.slot.count),
               printable(model.parameters[row.slot.parameter].name), row.region, row.route,
               printable(row.why)});
  }
  return table.text();
}

std::string totals_table(const std::vector<Row>& rows, const ModelShapes& model) {
  struct Total {
    std::size_t segments = 0;
    std::set<std::size_t> buckets;
    std::uint64_t values = 0;
  };
  std::map<std::string, Total> totals;
  for (const Row& row : rows) {
    Total& total = totals[row.route];
    total.segments += 1;
    total.buckets.insert(row.bucket);
    total.values += row.slot.count;
  }
  Table table({{.title = "route", .is_text = true},
               {.title = "segments"},
               {.title = "buckets"},
               {.title = "values"},
               {.title = "share"}});
  const auto all = static_cast<double>(std::max<std::uint64_t>(model.count(), 1));
  for (const auto& [route, total] : totals) {
    table.add({route, grouped(total.segments), grouped(total.buckets.size()), grouped(total.values),
               fmt::format("{:.2f} %", 100 * static_cast<double>(total.values) / all)});
  }
  return table.text();
}

void print_tables(const std::vector<Row>& rows, const ModelShapes& model, const Binding& binding,
                  std::uint64_t step) {
  fmt::print(
      "{} with profile {} at step {}, after every route is admitted\n"
      "Buckets as in DDP: the last parameter first, 1 MiB for the first bucket, then 25 MiB.\n"
      "offset, length  in values of the bucket\n"
      "why             the pattern that matched the parameter; `dense`: the route of its region;\n"
      "                `small`: fewer than {} values, always dense\n"
      "buckets         the number that contain the route\n"
      "\n{}\n{}",
      printable(model.name), printable(binding.profile().name), step,
      grouped(binding.profile().smallest_parameter), rows_table(rows, model),
      totals_table(rows, model));
}

void print_json(const std::vector<Row>& rows, const ModelShapes& model) {
  for (const Row& row : rows) {
    const nlohmann::ordered_json json{{"bucket", row.bucket},
                                      {"offset", row.slot.offset},
                                      {"length", row.slot.count},
                                      {"parameter", model.parameters[row.slot.parameter].name},
                                      {"region", row.region},
                                      {"route", row.route},
                                      {"why", row.why}};
    fmt::print("{}\n", json.dump());
  }
}

}  // namespace

Status explain_plan(const ModelShapes& model, const ExplainRequest& request) {
  const bool is_default = request.profile.empty();
  std::vector<ModelParameter> parameters =
      is_default ? with_guessed_types(model).bindable() : model.bindable();
  Expected<Profile> profile =
      is_default ? Expected<Profile>(default_profile(parameters)) : Profile::read(request.profile);
  if (!profile) return profile.status();
  const Expected<Binding> binding = Binding::make(std::move(*profile), std::move(parameters));
  if (!binding) return binding.status();
  const std::vector<Row> rows = rows_of(*binding, model, request.step);
  if (request.as_json) {
    print_json(rows, model);
  } else {
    print_tables(rows, model, *binding, request.step);
  }
  return {};
}

}  // namespace nf::cli
