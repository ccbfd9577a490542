// Either hosts wait, or one resource is always busy:
//
//   time = max( sum of access times / outstanding,  sum of service times + one access )
//   access time  = miss rate * (link + memory + datapath) + (1 - miss rate) * cache hit
//   service time = the time per request of the bottleneck: link, memory or datapath
//
// Interleaved requests of different kinds share the bottleneck, so their mean counts.
#include "cxl/formula.h"

#include <algorithm>
#include <cmath>

namespace nf::cxl {
namespace {

// Requests of the same cost.
struct Kind {
  double count = 0;
  double link_out = 0;  // busy time of the link, in ps
  double link_back = 0;
  double record_read = 0;  // lines of the record
  double record_written = 0;
  double lines_read = 0;  // other lines
  double lines_written = 0;
  double lines_folded = 0;  // slots read after all workers have arrived
  double fold_cycles = 0;   // cycles in which the datapath takes no other request
  double shared_by = 1;     // requests that share one fetch of the record

  double all_read() const { return record_read / shared_by + lines_read + lines_folded; }
  double all_written() const { return record_written / shared_by + lines_written; }
};

// If all workers need the same record at about the same time, it is read and written once for as
// many of them as fit on the controller.
double shared_by(WriteOrder order, std::uint32_t workers, std::uint32_t outstanding) {
  return order == WriteOrder::kApart ? 1 : std::min(workers, outstanding);
}

// The mean of requests of which a fraction `share` is `other` and the rest `one`.
Kind mix(const Kind& one, const Kind& other, double share) {
  const auto mean = [&](double Kind::*field) {
    return (1 - share) * (one.*field) + share * (other.*field);
  };
  return {.count = one.count + other.count,
          .link_out = mean(&Kind::link_out),
          .link_back = mean(&Kind::link_back),
          .record_read = mean(&Kind::record_read),
          .record_written = mean(&Kind::record_written),
          .lines_read = mean(&Kind::lines_read),
          .lines_written = mean(&Kind::lines_written),
          .lines_folded = mean(&Kind::lines_folded),
          .fold_cycles = mean(&Kind::fold_cycles),
          .shared_by = one.shared_by};
}

class Formula {
 public:
  Formula(const Timing& timing, const HostOptions& host) : timing_(timing), host_(host) {}

  double access(const Kind& kind, bool has_datapath) const {
    double miss = kind.link_out + kind.link_back + 2.0 * static_cast<double>(timing_.one_way()) +
                  read(kind.record_read + kind.lines_read) + timing_.period() / 2;
    if (kind.lines_folded > 0) miss += read(kind.lines_folded) + timing_.period() / 2;
    if (has_datapath) miss += timing_.period() * timing_.stages;
    return host_.miss_rate * miss + (1 - host_.miss_rate) * static_cast<double>(timing_.cache_hit);
  }

  double service(const Kind& kind, bool has_datapath) const {
    const double lines = kind.all_read() + kind.all_written();
    const double memory = lines * column() / timing_.channels * (1 + turnaround(kind));
    const double datapath = timing_.period() * (has_datapath ? 1 + kind.fold_cycles : 1);
    return std::max({kind.link_out, kind.link_back, memory, datapath});
  }

 private:
  double column() const { return static_cast<double>(timing_.dram.column_any); }

  // The time to read so many neighbouring lines. The expected wait for a refresh, in every channel,
  // is its probability times half of its duration.
  double read(double lines) const {
    const DramTiming& t = timing_.dram;
    const double in_a_channel = std::ceil(lines / timing_.channels);
    const auto refresh = static_cast<double>(t.refresh);
    const double wait = refresh * refresh / 2 / static_cast<double>(t.refresh_interval);
    return static_cast<double>(t.activate_to_column + t.read_latency + t.burst) +
           (in_a_channel - 1) * column() + std::min<double>(lines, timing_.channels) * wait;
  }

  // The bus turnaround, as a fraction of the time of all lines: once in each direction per batch of
  // writes.
  double turnaround(const Kind& kind) const {
    if (kind.all_written() == 0) return 0;
    const DramTiming& t = timing_.dram;
    const double gaps =
        static_cast<double>(t.read_to_write + t.write_latency + t.burst + t.write_to_read_any) -
        2 * column();
    const double writes = timing_.write_high - timing_.write_low;
    const double reads = writes * kind.all_read() / kind.all_written();
    return gaps / ((writes + reads) * column());
  }

  const Timing& timing_;
  const HostOptions& host_;
};

Kind kind_of(const Timing& timing, Mode mode, std::uint32_t workers, bool is_write, bool is_last,
             double count) {
  const Layout layout(mode, workers, 1);
  const std::uint32_t window = is_write || mode == Mode::kIdentity ? 0 : workers;
  const LineAccesses accesses = layout.accesses({.is_write = is_write, .window = window}, is_last);
  const LinkTiming& link = timing.link;
  return {
      .count = count,
      .link_out = static_cast<double>(link.time(is_write ? link.data_slots : link.request_slots)),
      .link_back = static_cast<double>(link.time(is_write ? link.answer_slots : link.data_slots)),
      .record_read = static_cast<double>(accesses.reads[0].count),
      .record_written = static_cast<double>(accesses.writes[0].count),
      .lines_read = static_cast<double>(accesses.reads[1].count),
      .lines_written = static_cast<double>(accesses.writes[1].count + accesses.writes[2].count),
      .lines_folded = static_cast<double>(accesses.fold.count),
      .fold_cycles =
          is_last && mode == Mode::kFp32 ? static_cast<double>(fold_cycles(workers - 1)) : 0};
}

}  // namespace

Prediction predict(const Timing& timing, const HostOptions& host, const Workload& workload) {
  const WorkloadOptions& options = workload.options();
  const auto writes = static_cast<double>(workload.writes());
  const auto lasts = static_cast<double>(options.lines);
  Kind kinds[] = {kind_of(timing, options.mode, options.workers, true, false, writes - lasts),
                  kind_of(timing, options.mode, options.workers, true, true, lasts),
                  kind_of(timing, options.mode, options.workers, false, false,
                          static_cast<double>(workload.requests()) - writes)};
  kinds[0].shared_by = kinds[1].shared_by =
      shared_by(options.order, options.workers, host.outstanding);
  kinds[2].shared_by = std::min(workload.reads_of_line(), host.outstanding);  // one after the other
  const Formula formula(timing, host);
  Prediction prediction;
  for (const bool has_datapath : {false, true}) {
    double waiting = 0;
    for (const Kind& kind : kinds) {
      waiting += kind.count * formula.access(kind, has_datapath) / host.outstanding;
    }
    double busy = formula.access(kinds[0], has_datapath) +
                  kinds[2].count * formula.service(kinds[2], has_datapath);
    for (const Workload::Stretch& stretch : workload.stretches()) {
      const Kind write = mix(kinds[0], kinds[1], stretch.completing);
      busy += stretch.writes * formula.service(write, has_datapath);
    }
    (has_datapath ? prediction.cycles : prediction.baseline_cycles) =
        std::max(waiting, busy) / timing.period();
    prediction.is_latency_bound = waiting > busy;
  }
  return prediction;
}

ServiceTimes service_times(const Timing& timing, Mode mode, std::uint32_t workers,
                           WriteOrder order) {
  const HostOptions host;
  const Formula formula(timing, host);
  Kind write = kind_of(timing, mode, workers, true, false, 1);
  Kind last = kind_of(timing, mode, workers, true, true, 1);
  write.shared_by = last.shared_by = shared_by(order, workers, timing.queue);
  const Kind read = kind_of(timing, mode, workers, false, false, 1);
  return {.write = formula.service(mix(write, last, 1.0 / workers), true) * 1e-12,
          .read = formula.service(read, true) * 1e-12,
          .alone = formula.access(last, true) * 1e-12};
}

}  // namespace nf::cxl
