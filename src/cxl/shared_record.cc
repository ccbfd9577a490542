#include "cxl/shared_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "cxl/trace.h"

namespace nf::cxl {
namespace {

constexpr std::uint64_t kBase = 0x10'0000'0000u;
constexpr std::uint64_t kIdlePercent = 20;
constexpr char kReady[] = "1101111011010111100111110110";  // the receiver is busy in 8 of 28 cycles

}  // namespace

Status SharedRecord::open(const std::string& path, std::uint32_t workers, std::uint64_t max_lines) {
  path_ = path;
  file_ = std::ofstream(path);
  if (!file_) return write_error();
  workers_ = workers;
  lines_left_ = max_lines;
  Trace trace;
  trace.device.records = kMaxRegionLines;
  trace.items.push_back({.kind = TraceItem::Kind::kReady, .ready = kReady});
  file_ << print_trace(trace) << std::flush;
  return file_ ? Status() : write_error();
}

Status SharedRecord::write_error() const {
  return {ErrorCode::kBadConfig, fmt::format("cannot write {}: {}", path_, strerror(errno))};
}

Status SharedRecord::add(Mode mode, std::span<const std::byte* const> by_worker,
                         std::size_t lines) {
  lines = std::min({lines, kMaxRegionLines, static_cast<std::size_t>(lines_left_ / workers_)});
  if (lines == 0) return {};
  lines_left_ -= lines * workers_;
  RegionConfig config{.mode = static_cast<std::uint64_t>(mode),
                      .workers = workers_,
                      .base = kBase,
                      .length = lines,
                      .stride = kLineShift};
  while (std::uint64_t{1} << config.stride < lines * kLineBytes) ++config.stride;
  std::vector<TraceItem> items;
  items.push_back({.kind = TraceItem::Kind::kEnable, .config = config});
  std::uint64_t cycle = 0;
  const auto add_request = [&](bool is_write, std::uint64_t window, std::uint64_t line) {
    while (mix64(draw_ += kGolden64) % 100 < kIdlePercent) ++cycle;
    Request request{.is_write = is_write,
                    .address = config.base + (window << config.stride) + line * kLineBytes};
    if (is_write) request.data = line_of({by_worker[window] + line * kLineBytes, kLineBytes});
    items.push_back({.cycle = cycle++, .request = request});
  };
  for (std::uint64_t line = 0; line < lines; ++line) {
    for (std::uint64_t worker = 0; worker < workers_; ++worker) add_request(true, worker, line);
  }
  for (std::uint64_t window = 0; window < result_windows_of(mode, workers_); ++window) {
    for (std::uint64_t line = 0; line < lines; ++line) add_request(false, workers_ + window, line);
  }
  items.push_back({.kind = TraceItem::Kind::kDisable});
  file_ << print_items(items) << std::flush;
  return file_ ? Status() : write_error();
}

}  // namespace nf::cxl
