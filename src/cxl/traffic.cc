#include "cxl/traffic.h"

#include <algorithm>
#include <random>

namespace nf::cxl {
namespace {

constexpr std::uint32_t kMixedLines = 4;
constexpr std::size_t kReadyPattern = 61;
constexpr std::uint64_t kBase = 0x10'0000'0000u;

class Traffic {
 public:
  explicit Traffic(const TrafficOptions& options) : options_(options), engine_(options.seed) {
    config_ = {.mode = static_cast<std::uint64_t>(options.mode),
               .workers = options.workers,
               .base = kBase,
               .length = options.lines,
               .stride = kLineShift};
    while (std::uint64_t{1} << config_.stride < options.lines * kLineBytes) ++config_.stride;
    trace_.device.records = options.lines;
  }

  Trace make() {
    std::string ready(kReadyPattern, '1');
    for (char& one : ready) one = happens(options_.busy_percent) ? '0' : '1';
    ready[0] = '1';
    trace_.items.push_back({.kind = TraceItem::Kind::kReady, .ready = ready});
    trace_.items.push_back({.kind = TraceItem::Kind::kEnable, .config = config_});
    for (std::uint32_t round = 0; round < options_.rounds; ++round) {
      if (round > 0) trace_.items.push_back({.kind = TraceItem::Kind::kClear});
      cycle_ = 0;
      add_round();
    }
    return std::move(trace_);
  }

 private:
  struct Write {
    std::uint32_t worker;
    std::uint32_t line;
  };

  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  bool happens(std::uint32_t percent) { return below(100) < percent; }

  void add_round() {
    std::vector<std::uint32_t> later;
    for (std::uint32_t first = 0; first < options_.lines; first += kMixedLines) {
      std::vector<Write> writes;
      const std::uint32_t end = std::min(first + kMixedLines, options_.lines);
      for (std::uint32_t line = first; line < end; ++line) {
        for (std::uint32_t worker = 0; worker < options_.workers; ++worker) {
          writes.push_back({worker, line});
        }
      }
      std::shuffle(writes.begin(), writes.end(), engine_);
      for (const Write& write : writes) {
        if (happens(options_.fault_percent)) add_fault(write);
        add(true, write.worker, write.line, random_line());
        if (happens(options_.fault_percent)) {
          add(true, write.worker, write.line, random_line());  // a second time
        }
      }
      for (std::uint32_t line = first; line < end; ++line) {
        if (happens(25)) {
          add_reads(line);
        } else {
          later.push_back(line);
        }
      }
    }
    for (const std::uint32_t line : later) add_reads(line);
  }

  void add_reads(std::uint32_t line) {
    const bool is_identity = options_.mode == Mode::kIdentity;
    const std::uint32_t first = is_identity ? 0 : options_.workers;
    const std::uint32_t count =
        is_identity ? options_.workers : result_windows_of(options_.mode, options_.workers);
    for (std::uint32_t i = 0; i < count; ++i) add(false, first + i, line, {});
  }

  // Adds a request that must be rejected if it comes before `write`.
  void add_fault(const Write& write) {
    const std::uint32_t results = result_windows_of(options_.mode, options_.workers);
    switch (below(5)) {
      case 0:  // too early, or a window that cannot be read
        add(false, below(2) == 0 && results > 0 ? options_.workers : write.worker, write.line, {});
        break;
      case 1: add(true, options_.workers + results, write.line, random_line()); break;
      case 2: add(true, write.worker, options_.lines, random_line()); break;
      case 3:
        add(true, write.worker, write.line, random_line());
        trace_.items.back().request.address += 1 + below(kLineBytes - 1);
        break;
      default: {
        Line line = random_line();
        line.words[below(kLineWords)] |= 0xff;  // does not encode five digits
        const bool is_rejected = options_.mode == Mode::kGTernary;
        if (is_rejected) add(true, write.worker, write.line, line);
      }
    }
  }

  void add(bool is_write, std::uint64_t window, std::uint64_t line, const Line& data) {
    while (happens(options_.idle_percent)) ++cycle_;
    const std::uint64_t address = config_.base + (window << config_.stride) + line * kLineBytes;
    trace_.items.push_back(
        {.cycle = cycle_, .request = {.is_write = is_write, .address = address, .data = data}});
    ++cycle_;
  }

  // For FP32, values of many magnitudes, and sometimes arbitrary bits.
  Line random_line() {
    Line line;
    for (std::uint64_t& word : line.words) word = engine_();
    std::array<std::byte, kLineBytes> bytes;
    std::copy(bytes_of(line).begin(), bytes_of(line).end(), bytes.begin());
    if (options_.mode == Mode::kGTernary) {
      for (std::byte& byte : bytes) byte = std::byte(std::to_integer<unsigned>(byte) % 243);
    } else if (options_.mode == Mode::kFp32 && !happens(5)) {
      // Exponents within 2^-16 ... 2^15 of each other, so that sums round.
      for (std::size_t i = 3; i < kLineBytes; i += 4) {
        bytes[i] = (bytes[i] & std::byte{0x87}) | std::byte{0x38};
      }
    }
    return line_of(bytes);
  }

  const TrafficOptions options_;
  std::mt19937_64 engine_;
  RegionConfig config_;
  Trace trace_;
  std::uint64_t cycle_ = 0;
};

}  // namespace

std::uint64_t max_lines(const TrafficOptions& options) {
  // A rejected request before each write, and one after it.
  const std::uint64_t writes = std::uint64_t{options.workers} * (options.fault_percent > 0 ? 3 : 1);
  const std::uint64_t reads = options.mode == Mode::kIdentity
                                  ? options.workers
                                  : result_windows_of(options.mode, options.workers);
  return options.rounds * (options.lines * (writes + reads) + 1) + 4;
}

Trace random_traffic(const TrafficOptions& options) { return Traffic(options).make(); }

}  // namespace nf::cxl
