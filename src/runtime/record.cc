#include "runtime/record.h"

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "neuron_fabric/version.h"

namespace nf {
namespace {

using nlohmann::ordered_json;

double unix_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string_view to_string(Mode mode) { return mode == Mode::kOn ? "on" : "shadow"; }

std::string_view to_string(Admit admit) {
  switch (admit) {
    case Admit::kUseful: return "useful";
    case Admit::kSafe: return "safe";
    case Admit::kForced: return "forced";
  }
  return "useful";
}

double gbps(double bytes_per_second) { return bytes_per_second * 8e-9; }

// JSON has no NaN and no infinity.
ordered_json finite(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

// Names are bytes from a model and a profile; invalid UTF-8 must not throw.
std::string print(const ordered_json& record) {
  return record.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

double exposed_seconds(const std::vector<BucketTimes>& buckets) {
  if (buckets.empty()) return 0;
  double done = 0;
  for (const BucketTimes& bucket : buckets) done = std::max(done, bucket.done);
  return std::max(0.0, done - buckets.back().ready);
}

// The loss of this rank. A step that is not monitored has no mean over ranks.
ordered_json rank_loss(const RankStatistics& local) {
  return local.losses > 0 ? finite(local.loss / local.losses) : ordered_json(nullptr);
}

ordered_json region_record(const Binding& binding, const TrainingStep& step, std::uint32_t region) {
  const RegionStatistics& statistics = step.statistics.regions[region];
  const RegionTraffic& traffic = step.traffic[region];
  const bool is_sampled = statistics.sample_energy > 0;
  return {
      {"name", binding.profile().regions[region].name},
      {"route", step.routes[region]},
      {"reason", nf::to_string(step.decisions[region].reason)},
      {"norm", step.is_monitored ? finite(std::sqrt(statistics.energy)) : nullptr},
      {"error", is_sampled ? finite(statistics.error_energy / statistics.sample_energy) : nullptr},
      {"non_finite", step.is_monitored ? ordered_json(statistics.non_finite) : nullptr},
      {"bytes", std::llround(traffic.low_bit_bytes + traffic.sent_dense_bytes)},
      {"dense_bytes", std::llround(traffic.dense_bytes)},
      {"up_bytes", std::llround(traffic.low_bit_up_bytes + traffic.sent_dense_up_bytes)},
      {"seconds", traffic.seconds}};
}

}  // namespace

std::string job_record(const Binding& binding, const FabricOptions& options, Topology topology,
                       std::span<const TopologyTime> times, const LinkFigures& link,
                       std::uint32_t rank, std::uint32_t ranks) {
  const Profile& profile = binding.profile();
  struct Sum {
    std::size_t parameters = 0;
    std::size_t values = 0;
  };
  std::vector<Sum> sums(profile.regions.size());
  ordered_json parameters = ordered_json::array();
  for (std::size_t i = 0; i < binding.parameters().size(); ++i) {
    const ModelParameter& parameter = binding.parameters()[i];
    const std::uint32_t region = binding.region_of(i);
    sums[region].parameters += 1;
    sums[region].values += parameter.count;
    parameters.push_back(
        {{"name", parameter.name},
         {"region", profile.regions[region].name},
         {"values", parameter.count},
         {"route", binding.is_small(i) ? std::string(kDenseRoute) : binding.route(region, 0)}});
  }
  ordered_json regions = ordered_json::array();
  for (std::uint32_t region = 0; region < sums.size(); ++region) {
    regions.push_back({{"name", profile.regions[region].name},
                       {"parameters", sums[region].parameters},
                       {"values", sums[region].values},
                       {"route", binding.route(region, 0)},
                       {"error_budget", profile.regions[region].error_budget.value_or(
                                            profile.health.error_budget)}});
  }
  ordered_json topology_ms = ordered_json::object();
  for (const TopologyTime& one : times) {
    topology_ms[nf::to_string(one.topology)] = one.seconds * 1e3;
  }
  const ordered_json record{{"event", "attach"},
                            {"time", unix_time()},
                            {"rank", rank},
                            {"ranks", ranks},
                            {"version", kVersion},
                            {"mode", to_string(options.mode)},
                            {"admit", to_string(options.admit)},
                            {"collective", nf::to_string(options.collective)},
                            {"topology", nf::to_string(topology)},
                            {"topology_ms", topology_ms},
                            {"seed", options.seed},
                            {"profile", profile.name},
                            {"link",
                             {{"latency_us", link.latency * 1e6},
                              {"gbps", gbps(link.bytes_per_second)},
                              {"dense_latency_us", link.dense_latency * 1e6},
                              {"dense_gbps", gbps(link.dense_bytes_per_second)}}},
                            {"regions", regions},
                            {"parameters", parameters}};
  return print(record);
}

std::string topology_record(Topology topology) {
  return print({{"event", "topology"}, {"topology", nf::to_string(topology)}});
}

std::string step_record(const Binding& binding, const TrainingStep& step,
                        const Usefulness::Prediction& prediction,
                        const Usefulness::Prediction* shadow) {
  const StepStatistics& statistics = step.statistics;
  ordered_json regions = ordered_json::array();
  for (std::uint32_t region = 0; region < step.routes.size(); ++region) {
    regions.push_back(region_record(binding, step, region));
    if (shadow != nullptr) regions.back()["shadow_route"] = step.wanted[region];
  }
  // If times were not reduced over ranks, use this rank's own.
  const std::vector<BucketTimes>& times =
      statistics.buckets.empty() ? step.local.buckets : statistics.buckets;
  ordered_json record{{"event", "step"},
                      {"step", statistics.step},
                      {"time", unix_time()},
                      {"epoch", step.epoch},
                      {"seconds", step.local.seconds},
                      {"exposed_seconds", exposed_seconds(times)},
                      {"predicted_exposed_seconds", finite(prediction.exposed_seconds)},
                      {"loss", statistics.losses > 0 ? finite(statistics.loss) : nullptr},
                      {"rank_loss", rank_loss(step.local)},
                      {"should_step", step.is_monitored ? ordered_json(step.is_finite()) : nullptr},
                      {"buckets", step.buckets.size()},
                      {"regions", regions}};
  if (shadow != nullptr) {
    record["shadow_bytes"] = shadow->bytes;
    record["shadow_exposed_seconds"] = finite(shadow->exposed_seconds);
  }
  return print(record);
}

std::string buckets_record(const Binding& binding, const TrainingStep& step) {
  ordered_json buckets = ordered_json::array();
  for (const BucketLayout& bucket : step.buckets) {
    std::size_t values = 0;
    std::size_t low_bit_values = 0;  // of regions with a low-bit route
    for (const BucketSlot& slot : bucket.slots) {
      values += slot.count;
      const std::string& wanted = step.wanted[binding.region_of(slot.parameter)];
      const bool is_dense = wanted == kDenseRoute || binding.is_small(slot.parameter);
      low_bit_values += is_dense ? 0 : slot.count;
    }
    buckets.push_back({{"values", values}, {"low_bit_values", low_bit_values}});
  }
  const ordered_json record{
      {"event", "buckets"}, {"step", step.statistics.step}, {"buckets", buckets}};
  return print(record);
}

std::string decision_record(const Binding& binding, const TrainingStep& step, std::uint32_t region,
                            const Decision& before) {
  const Decision& now = step.decisions[region];
  const ordered_json record{{"event", "decision"},
                            {"step", step.statistics.step},
                            {"epoch", step.epoch},
                            {"region", binding.profile().regions[region].name},
                            {"from", nf::to_string(before.reason)},
                            {"to", nf::to_string(now.reason)},
                            {"was_low_bit", before.is_low_bit},
                            {"is_low_bit", now.is_low_bit},
                            {"route", step.routes[region]}};
  return print(record);
}

std::string measured_record(const Binding& binding, std::uint64_t step,
                            const MeasuredInputs& inputs) {
  ordered_json useful = ordered_json::array();
  for (std::size_t region = 0; region < inputs.useful.size(); ++region) {
    if (inputs.useful[region]) useful.push_back(binding.profile().regions[region].name);
  }
  return print({{"event", "measured"},
                {"step", step},
                {"useful", std::move(useful)},
                {"over_capacity", inputs.is_over_capacity}});
}

void RecordQueue::push(std::string record) {
  if (records_.size() == kMaxRecords) records_.pop_front();
  records_.push_back(std::move(record));
}

std::vector<std::string> RecordQueue::drain() {
  std::vector<std::string> records(std::make_move_iterator(records_.begin()),
                                   std::make_move_iterator(records_.end()));
  records_.clear();
  return records;
}

}  // namespace nf
