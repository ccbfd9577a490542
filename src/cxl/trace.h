// Requests with the cycle of their arrival, and the answers with theirs: the files that the model
// and the RTL are compared by (docs/cxl.md#traces).
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
  std::uint64_t cycle = 0;   // of kRequest: it is offered from then on
  Request request = {};

  friend bool operator==(const TraceItem& a, const TraceItem& b);
};

struct Trace {
  DeviceLimits device;
  std::vector<TraceItem> items;
};

// `origin` names the text in messages. Fails with kBadConfig and the line that is wrong.
Expected<Trace> parse_trace(std::string_view text, std::string_view origin = "trace");
std::string print_trace(const Trace& trace);
// Of a trace, what follows its first two lines.
std::string print_items(std::span<const TraceItem> items);

// Of one item: of a request the cycles of both its handshakes, else the fault alone.
struct TraceAnswer {
  bool is_request = false;
  std::uint64_t taken = 0;
  std::uint64_t answered = 0;
  Answer answer = {};
};

// Lets the trace through the pipeline of a new device. One answer an item, `ready` aside.
std::vector<TraceAnswer> run_trace(const Trace& trace);
std::string print_answers(const std::vector<TraceAnswer>& answers);

}  // namespace nf::cxl
