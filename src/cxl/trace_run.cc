// Runs a trace through the pipeline, offering each request from its cycle on.
#include <algorithm>

#include "cxl/pipeline.h"
#include "cxl/trace.h"

namespace nf::cxl {
namespace {

// Runs the requests between two register accesses.
void run_requests(Pipeline& pipeline, std::span<const TraceItem> items, const std::string& ready,
                  std::vector<TraceAnswer>& answers) {
  std::size_t next = 0;                  // to be offered
  std::size_t waiting = answers.size();  // for the oldest answer
  for (std::uint64_t cycle = 0; next < items.size() || !pipeline.is_empty(); ++cycle) {
    if (pipeline.is_empty()) cycle = std::max(cycle, items[next].cycle);  // skip idle cycles
    const bool is_offered = next < items.size() && items[next].cycle <= cycle;
    const bool is_ready = ready.empty() || ready[cycle % ready.size()] == '1';
    const Pipeline::TickResult result =
        pipeline.tick(is_offered ? &items[next].request : nullptr, is_ready);
    if (result.taken) {
      answers.push_back({.is_request = true, .taken = cycle});
      ++next;
    }
    if (result.answered) {
      answers[waiting].answered = cycle;
      answers[waiting].answer = *result.answered;
      ++waiting;
    }
  }
}

}  // namespace

std::vector<TraceAnswer> run_trace(const Trace& trace) {
  Reducer reducer(trace.device);
  std::string ready;
  std::vector<TraceAnswer> answers;
  const std::span<const TraceItem> items = trace.items;
  for (std::size_t at = 0; at < items.size();) {
    const TraceItem& item = items[at];
    const auto answer = [&](Fault fault) { answers.push_back({.answer = {.fault = fault}}); };
    std::size_t size = 1;
    switch (item.kind) {
      case TraceItem::Kind::kReady: ready = item.ready; break;
      case TraceItem::Kind::kEnable: answer(reducer.enable(item.region, item.config)); break;
      case TraceItem::Kind::kClear: answer(reducer.control(item.region, Control::kClear)); break;
      case TraceItem::Kind::kDisable:
        answer(reducer.control(item.region, Control::kDisable));
        break;
      case TraceItem::Kind::kRequest: {
        const auto rest = items.subspan(at);
        const auto end = std::find_if(rest.begin(), rest.end(), [](const TraceItem& one) {
          return one.kind != TraceItem::Kind::kRequest;
        });
        size = static_cast<std::size_t>(end - rest.begin());
        Pipeline pipeline(reducer);
        run_requests(pipeline, rest.first(size), ready, answers);
        break;
      }
    }
    at += size;
  }
  return answers;
}

}  // namespace nf::cxl
