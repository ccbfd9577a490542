// Requests with their cycles, and answers with theirs. The model and the RTL are compared by these
// files (docs/cxl.md#traces).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxl/reducer.h"
#include "neuron_fabric/status.h"

namespace nf::cxl {

struct TraceItem {
  enum class Kind : std::uint8_t { kReady, kEnable, kClear, kDisable, kRequest };

  Kind kind = Kind::kRequest;
  std::uint32_t region = 0;
  RegionConfig config = {};  // of kEnable
  std::string ready = {};    // of kReady: '0' and '1', at least one '1'
  std::uint64_t cycle = 0;   // of kRequest: offered from this cycle on
  Request request = {};

  friend bool operator==(const TraceItem& a, const TraceItem& b);
};

struct Trace {
  DeviceLimits device;
  std::vector<TraceItem> items;
};

// The limits of a trace. They bound the memory and the time of parse_trace() and run_trace().
inline constexpr std::size_t kMaxTraceLines = std::size_t{1} << 22;
inline constexpr std::size_t kMaxReadyPattern = 1024;
inline constexpr std::uint64_t kMaxRegionBytes = std::uint64_t{1} << 30;  // of all regions together

// `origin` names the text in messages. Fails with kBadConfig and the number of the invalid line.
Expected<Trace> parse_trace(std::string_view text, std::string_view origin = "trace");
std::string print_trace(const Trace& trace);
// The items of a trace, without its first two lines.
std::string print_items(std::span<const TraceItem> items);

// The answer of one item: for a request with the cycles of both its handshakes, otherwise the fault
// alone.
struct TraceAnswer {
  bool is_request = false;
  std::uint64_t taken = 0;
  std::uint64_t answered = 0;
  Answer answer = {};
};

// Runs the trace through the pipeline of a new device. One answer per item, except `ready`.
std::vector<TraceAnswer> run_trace(const Trace& trace);
std::string print_answers(const std::vector<TraceAnswer>& answers);

}  // namespace nf::cxl
