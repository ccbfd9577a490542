#include "nf/replay/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "codec/sign/sign_format.h"
#include "collective/traffic_model.h"
#include "cxl/formula.h"
#include "cxl/read_out.h"
#include "neuron_fabric/codec.h"
#include "nf/support/timing.h"

namespace nf::cli {
namespace {

constexpr std::size_t kTimedValues = std::size_t{1} << 20;
constexpr int kRepeat = 5;
constexpr std::size_t kDenseBytes = 4;

double seconds(const ReplayLink& link, double bytes, double transfers) {
  return transfers * link.latency_us * 1e-6 + bytes * 8 / (link.gbps * 1e9);
}

// A ring sends 2 (n - 1) / n of the bytes, in 2 (n - 1) transfers.
double dense_seconds(const ReplayCase& one, double bytes) {
  if (one.workers == 1 || bytes == 0) return 0;
  const double n = one.workers;
  return seconds(one.link, 2 * (n - 1) / n * bytes, 2 * (n - 1));
}

struct Reduction {
  double codec = 0;   // seconds before and after
  double reduce = 0;  // seconds between
};

Expected<Reduction> ring_seconds(const ReplayCase& one, std::size_t values) {
  const std::size_t counts[] = {values};
  const Expected<TrafficModel> traffic =
      model_traffic(one.codec, counts, one.workers, Topology::kRing);
  if (!traffic) return traffic.status();
  const double wire = seconds(one.link, static_cast<double>(traffic->bytes), traffic->hops);
  const auto count = static_cast<double>(values);
  const double n = one.workers;
  // A rank encodes one part, adds to n - 1 parts, and decodes all of them.
  return Reduction{.codec = count * (one.times.encode / n + one.times.decode),
                   .reduce = wire + count * one.times.hop * (n - 1) / n};
}

// Rank 0 receives a message from every other rank, merges them, and sends the sum to every rank.
Expected<Reduction> endpoint_seconds(const ReplayCase& one, std::size_t values) {
  const Expected<std::unique_ptr<Codec>> codec = make_codec(one.codec);
  if (!codec) return codec.status();
  const Slice slice{.count = values, .ranks = one.workers};
  const double others = one.workers - 1;
  const double bytes = others * static_cast<double>((*codec)->encoded_size(slice, 1) +
                                                    (*codec)->encoded_size(slice, one.workers));
  const auto count = static_cast<double>(values);
  return Reduction{.codec = count * (one.times.encode + one.times.decode),
                   .reduce = seconds(one.link, bytes, 2) + count * one.times.merge * others};
}

cxl::Mode mode_of(const std::string& codec) {
  return codec.starts_with("g_ternary") ? cxl::Mode::kGTernary : cxl::Mode::kGBinary;
}

// Every worker writes its lines, then reads all results; all workers share the device. Scales are
// lines in FP32 mode.
Reduction cxl_seconds(const ReplayCase& one, std::size_t values) {
  const cxl::Mode mode = mode_of(one.codec);
  const auto lines = static_cast<double>(cxl::gradient_lines(mode, values));
  const auto scales = static_cast<double>(cxl::lines_of(sign_codes_at(values)));
  const double results = cxl::result_windows_of(mode, one.workers);
  const cxl::ServiceTimes codes = cxl::service_times(one.timing, mode, one.workers, one.order);
  const cxl::ServiceTimes fp32 =
      cxl::service_times(one.timing, cxl::Mode::kFp32, one.workers, one.order);
  const double n = one.workers;
  const double reduce =
      n * (lines * (codes.write + results * codes.read) + scales * (fp32.write + fp32.read)) +
      2 * codes.alone;
  const auto count = static_cast<double>(values);
  return {.codec = count * (one.times.encode + one.times.decode), .reduce = reduce};
}

// The ranks of a host share its cores, so codec and reducer are measured together.
Reduction shared_seconds(const ReplayCase& one, std::size_t values) {
  const auto count = static_cast<double>(values);
  const double reduce = one.shared.reduce.at(count);
  return {.codec = std::max(0.0, one.shared.whole.at(count) - reduce), .reduce = reduce};
}

Expected<Reduction> reduction_seconds(const ReplayCase& one, std::size_t values) {
  if (one.workers == 1 || values == 0) return Reduction{};
  switch (one.reducer) {
    case ReplayReducer::kRing: return ring_seconds(one, values);
    case ReplayReducer::kEndpoint: return endpoint_seconds(one, values);
    case ReplayReducer::kCxl: return cxl_seconds(one, values);
    case ReplayReducer::kShared: return shared_seconds(one, values);
  }
  return Reduction{};
}

// Why the bucket exceeds the capacity of the reducer; empty if it does not.
std::string beyond_capacity(const ReplayCase& one, std::size_t values) {
  const ReducerCapacity& capacity = one.capacity;
  if (one.reducer != ReplayReducer::kCxl) return {};
  if (capacity.most_workers > 0 && one.workers > capacity.most_workers) {
    return fmt::format("capacity: counters for at most {} workers", capacity.most_workers);
  }
  const std::uint64_t lines = one.workers * cxl::gradient_lines(mode_of(one.codec), values);
  if (capacity.queue_lines > 0 && lines > capacity.queue_lines) {
    return fmt::format("capacity: {} lines exceed the queue of {}", lines, capacity.queue_lines);
  }
  return {};
}

}  // namespace

std::string_view to_string(ReplayReducer reducer) {
  switch (reducer) {
    case ReplayReducer::kRing: return "ring";
    case ReplayReducer::kEndpoint: return "endpoint";
    case ReplayReducer::kCxl: return "cxl";
    case ReplayReducer::kShared: return "shared";
  }
  return "";
}

Expected<CodecTimes> measure_codec_times(const std::string& spelling, std::uint32_t workers) {
  const Expected<std::unique_ptr<Codec>> codec = make_codec(spelling);
  if (!codec) return codec.status();
  const std::uint32_t ranks = std::max(workers, 2u);
  if (ranks > (*codec)->max_ranks()) {
    return Status(ErrorCode::kBadConfig, fmt::format("codec '{}' sums at most {} ranks, not {}",
                                                     spelling, (*codec)->max_ranks(), ranks));
  }
  const Slice slice{.count = kTimedValues, .ranks = ranks};
  std::vector<float> values(kTimedValues);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i * i % 1009)) + 0.001f;
  }
  std::vector<std::byte> own((*codec)->encoded_size(slice, 1));
  // All counts and scales are zero: the time does not depend on the values.
  const std::uint32_t before = ranks - 1;
  std::vector<std::byte> partial((*codec)->encoded_size(slice, before));
  std::vector<std::byte> sum((*codec)->encoded_size(slice, ranks));
  std::vector<float> out(kTimedValues);
  const Origin all{.encoder = 0, .contributions = ranks};
  const Origin part{.encoder = 0, .contributions = before};
  const auto timed = [&](const Work& work) -> Expected<double> {
    const Expected<std::vector<double>> samples = sample_seconds(work, kRepeat);
    if (!samples) return samples.status();
    return summarise(*samples).seconds / static_cast<double>(kTimedValues);
  };
  CodecTimes times;
  const std::pair<double*, Work> works[] = {
      {&times.encode,
       [&] {
         return (*codec)->encode(slice, {.encoder = 1}, std::span(std::as_const(values)), own);
       }},
      {&times.hop,
       [&] {
         return (*codec)->decode_add_encode(slice, part, before == 1 ? own : partial,
                                            std::span(std::as_const(values)), all, sum);
       }},
      {&times.merge,
       [&] {
         return (*codec)->merge(slice, part, before == 1 ? own : partial, {.encoder = 1}, own, 0,
                                sum);
       }},
      {&times.decode, [&] { return (*codec)->decode(slice, all, sum, std::span(out)); }}};
  for (const auto& [to, work] : works) {
    const Expected<double> time = timed(work);
    if (!time) return time.status();
    *to = *time;
  }
  return times;
}

ReducerCapacity capacity_of(const cxl::Timing& timing, const std::string& codec,
                            std::uint32_t workers) {
  const cxl::DeviceLimits device;
  const cxl::Mode mode = mode_of(codec);
  ReducerCapacity capacity{.most_workers = device.max_workers};
  while (cxl::planes_of(mode, capacity.most_workers) > device.planes) --capacity.most_workers;
  const std::uint32_t served = std::min(workers, capacity.most_workers);
  capacity.lines_per_second =
      std::floor(1 / cxl::service_times(timing, mode, served, cxl::WriteOrder::kApart).write);
  capacity.queue_lines = device.records * served;
  return capacity;
}

Expected<ReplayCost> cost_of(const ReplayCase& one, const BucketTraffic& bucket) {
  const auto low_bit = static_cast<std::size_t>(bucket.low_bit_values);
  const Expected<Reduction> reduction = reduction_seconds(one, low_bit);
  if (!reduction) return reduction.status();
  const auto bytes = static_cast<double>(bucket.bytes());
  const auto dense = static_cast<double>(kDenseBytes * (bucket.values - bucket.low_bit_values));
  ReplayCost cost{
      .fp32_us = 1e6 * dense_seconds(one, bytes),
      .bf16_us = 1e6 * dense_seconds(one, bytes / 2),
      .low_bit_us = 1e6 * (reduction->codec + reduction->reduce + dense_seconds(one, dense)),
      .reduce_us = 1e6 * reduction->reduce};
  cost.reason = beyond_capacity(one, low_bit);
  if (!cost.reason.empty()) return cost;
  if (one.workers == 1) {
    cost.reason = "one worker has nothing to send";
  } else if (low_bit == 0) {
    cost.reason = "the bucket has no low-bit values";
  } else {
    cost.pays = cost.low_bit_us < cost.bf16_us;
    const bool is_codec = reduction->codec > reduction->reduce;
    cost.reason =
        cost.pays ? fmt::format("{:.1f} times as fast as bf16", cost.bf16_us / cost.low_bit_us)
                  : fmt::format("slower than bf16: mostly {} time", is_codec ? "codec" : "reducer");
  }
  return cost;
}

}  // namespace nf::cli
