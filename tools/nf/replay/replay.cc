// nf replay: predicts for which buckets of a job low bits pay with a given reducer.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "neuron_fabric/codec.h"
#include "neuron_fabric/profile.h"
#include "nf/profile/text.h"
#include "nf/replay/bucket_trace.h"
#include "nf/replay/model.h"
#include "nf/replay/options.h"
#include "nf/replay/shared.h"
#include "nf/support/command.h"
#include "nf/support/progress.h"
#include "nf/support/table.h"

namespace nf::cli {
namespace {

constexpr std::uint32_t kMaxSharedWorkers = 64;
constexpr int kRepeat = 9;  // all-reduces of --measure

// Buckets of equal size.
struct BucketGroup {
  BucketTraffic bucket;
  std::uint64_t count = 0;
};

std::vector<BucketGroup> group_by_size(const BucketTrace& trace) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, BucketGroup> groups;
  for (const BucketTraffic& bucket : trace.buckets) {
    BucketGroup& group = groups[{bucket.values, bucket.low_bit_values}];
    group.bucket = bucket;
    ++group.count;
  }
  std::vector<BucketGroup> sorted;
  sorted.reserve(groups.size());
  for (const auto& [key, group] : groups) sorted.push_back(group);
  return sorted;
}

struct Row {
  const ReplayCase& one;
  const BucketGroup& group;
  ReplayCost cost;
  double measured_us = 0;  // of the reduction; 0 if it was not measured
};

void print_json(const Row& row) {
  nlohmann::ordered_json json{{"reducer", to_string(row.one.reducer)},
                              {"workers", row.one.workers},
                              {"bucket_bytes", row.group.bucket.bytes()},
                              {"fp32_us", row.cost.fp32_us},
                              {"bf16_us", row.cost.bf16_us},
                              {"low_bit_us", row.cost.low_bit_us},
                              {"pays", row.cost.pays},
                              {"reason", row.cost.reason},
                              {"codec", row.one.codec},
                              {"link_gbps", row.one.link.gbps},
                              {"low_bit_values", row.group.bucket.low_bit_values},
                              {"buckets", row.group.count},
                              {"reduce_us", row.cost.reduce_us}};
  if (row.measured_us > 0) json["measured_reduce_us"] = row.measured_us;
  fmt::print("{}\n", json.dump());
}

void print_title(const ReplayOptions& options, const BucketTrace& trace) {
  fmt::print(
      "{}: {}, {} with reducer {}; predicted\n"
      "low bits    values that can be sent at low bits; the rest of the bucket is dense\n"
      "fp32, bf16  the whole bucket with a ring over the link, without a codec\n"
      "low_bit     including encode and decode, at the speed of one thread of this host\n"
      "reduce      the part of low_bit from the last encode to the first decode\n"
      "\n",
      printable(trace.name.empty() ? "trace" : trace.name), counted(trace.buckets.size(), "bucket"),
      options.codec, options.reducer);
}

Table new_table(bool is_measured) {
  std::vector<Column> columns{
      {.title = "workers", .min_width = 7},       {.title = "Gb/s", .min_width = 6},
      {.title = "bucket bytes", .min_width = 12}, {.title = "buckets", .min_width = 7},
      {.title = "low bits", .min_width = 11},     {.title = "fp32 us", .min_width = 10},
      {.title = "bf16 us", .min_width = 10},      {.title = "low_bit us", .min_width = 10},
      {.title = "reduce us", .min_width = 10}};
  if (is_measured) columns.push_back({.title = "measured us", .min_width = 11});
  columns.push_back({.title = "pays", .is_text = true, .min_width = 4});
  columns.push_back({.title = "reason", .is_text = true});
  return Table(columns);
}

void print_row(Table& table, const Row& row, bool is_measured) {
  const auto number = [](double us) { return fmt::format("{:.1f}", us); };
  std::vector<std::string> cells{fmt::format("{}", row.one.workers),
                                 fmt::format("{:g}", row.one.link.gbps),
                                 grouped(row.group.bucket.bytes()),
                                 fmt::format("{}", row.group.count),
                                 grouped(row.group.bucket.low_bit_values),
                                 number(row.cost.fp32_us),
                                 number(row.cost.bf16_us),
                                 number(row.cost.low_bit_us),
                                 number(row.cost.reduce_us)};
  if (is_measured) cells.push_back(number(row.measured_us));
  cells.push_back(row.cost.pays ? "yes" : "no");
  cells.push_back(row.cost.reason);
  table.add(cells);
}

Status write_capacity(const ReplayOptions& options, const ReducerCapacity& capacity) {
  Expected<Profile> profile = Profile::read(options.profile);
  if (!profile) return profile.status();
  profile->reducer = capacity;
  std::ofstream file(options.write_profile);
  file << profile->print();
  file.close();
  if (!file) {
    return {ErrorCode::kBadConfig, fmt::format("cannot write {}", options.write_profile)};
  }
  return {};
}

Expected<ReplayReducer> reducer_of(const std::string& name) {
  for (const ReplayReducer reducer : kReplayReducers) {
    if (to_string(reducer) == name) return reducer;
  }
  return Status(ErrorCode::kBadConfig, fmt::format("unknown reducer '{}'", name));
}

// The case of a number of workers. Measures its codec times and, for kShared, the reducer.
Expected<ReplayCase> case_of(const ReplayOptions& options, const BucketTrace& trace,
                             std::uint32_t workers) {
  const Expected<ReplayReducer> reducer = reducer_of(options.reducer);
  if (!reducer) return reducer.status();
  ReplayCase one{.reducer = *reducer,
                 .codec = options.codec,
                 .workers = workers,
                 .link = {.gbps = 0, .latency_us = options.latency_us}};
  const Expected<CodecTimes> times = measure_codec_times(options.codec, workers);
  if (!times) return times.status();
  one.times = *times;
  one.timing.clock_ghz = options.clock_ghz;
  if (options.order == "apart") one.order = cxl::WriteOrder::kApart;
  one.capacity = capacity_of(one.timing, options.codec, workers);
  if (one.reducer == ReplayReducer::kShared) {
    const Expected<SharedTimes> shared = measure_shared_times(options.codec, workers, trace);
    if (!shared) return shared.status();
    one.shared = *shared;
  }
  return one;
}

Status run(const ReplayOptions& options) {
  const Expected<BucketTrace> trace = read_bucket_trace(options.trace);
  if (!trace) return trace.status();
  std::vector<std::uint32_t> workers = options.workers;
  if (workers.empty()) workers = {trace->workers > 0 ? trace->workers : kDefaultWorkers};
  if (const std::uint32_t max = *std::max_element(workers.begin(), workers.end());
      options.reducer == "shared" && max > kMaxSharedWorkers) {
    return {ErrorCode::kBadConfig,
            fmt::format("--reducer shared supports at most {} workers, not {}", kMaxSharedWorkers,
                        max)};
  }
  const std::vector<BucketGroup> groups = group_by_size(*trace);
  Progress progress(workers.size());
  if (!options.as_json) print_title(options, *trace);
  Table table = new_table(options.is_measured);
  for (const std::uint32_t count : workers) {
    progress.step();
    progress.show(fmt::format("measuring {} for {} workers", options.codec, count));
    Expected<ReplayCase> one = case_of(options, *trace, count);
    if (!one) return one.status();
    for (const double gbps : options.gbps) {
      one->link.gbps = gbps;
      for (const BucketGroup& group : groups) {
        const Expected<ReplayCost> cost = cost_of(*one, group.bucket);
        if (!cost) return cost.status();
        Row row{.one = *one, .group = group, .cost = *cost};
        if (options.is_measured && group.bucket.low_bit_values > 0 && count > 1) {
          const Expected<SharedSum> measured =
              measure_shared_sum(options.codec, count, group.bucket, kRepeat);
          if (!measured) return measured.status();
          row.measured_us = 1e6 * measured->reduce;
        }
        progress.clear();
        if (options.as_json) {
          print_json(row);
        } else {
          print_row(table, row, options.is_measured);
        }
      }
    }
    if (!options.write_profile.empty() && count == workers.back()) {
      NF_RETURN_IF_ERROR(write_capacity(options, one->capacity));
    }
  }
  if (!options.as_json) fmt::print("{}", table.text());
  return {};
}

}  // namespace

void add_replay(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("replay", "predict the time of buckets with a reducer");
  const std::shared_ptr<ReplayOptions> options = add_replay_options(*command);
  command->callback([&action, command, options] {
    for (const char* name : {"--clock-ghz", "--order"}) {
      if (command->count(name) > 0) options->cxl_options.emplace_back(name);
    }
    action = [options] {
      NF_RETURN_IF_ERROR(check(*options));
      return run(*options);
    };
  });
}

}  // namespace nf::cli
