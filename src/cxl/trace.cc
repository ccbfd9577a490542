// Reads and prints traces. Each line is one item; words are separated by one or more spaces.
#include "cxl/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

namespace nf::cxl {
namespace {

constexpr std::string_view kTitle = "nf_cxl_trace 1";
constexpr std::uint64_t kMaxRecords = std::uint64_t{1} << 24;
constexpr std::uint64_t kMaxCycle = std::uint64_t{1} << 48;
constexpr std::uint64_t kAddressEnd = std::uint64_t{1} << 48;
constexpr std::uint32_t kRegionEnd = 256;
constexpr std::string_view kNoRegion = "regions are below 256";
constexpr std::string_view kDigits = "0123456789abcdef";

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return words;
    const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

template <typename Number>
bool parse(std::string_view word, Number& number, int base = 10) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number, base);
  return error == std::errc() && end == word.data() + word.size();
}

bool parse_line(std::string_view word, Line& line) {
  if (word.size() != 2 * kLineBytes) return false;
  std::array<std::byte, kLineBytes> bytes;
  for (std::size_t i = 0; i < kLineBytes; ++i) {
    std::uint8_t byte = 0;
    if (!parse(word.substr(2 * i, 2), byte, 16)) return false;
    bytes[i] = std::byte{byte};
  }
  line = line_of(bytes);
  return true;
}

void print_line(const Line& line, std::string& text) {
  for (const std::byte byte : bytes_of(line)) {
    text += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
}

// The parsers below return an error message, or an empty string.
std::string parse_device(const std::vector<std::string_view>& words, DeviceLimits& device) {
  const bool is_valid = words.size() == 5 && words[0] == "device" &&
                        parse(words[1], device.planes) && parse(words[2], device.max_workers) &&
                        parse(words[3], device.regions) && parse(words[4], device.records);
  if (!is_valid) return "expected 'device PLANES MAX_WORKERS REGIONS RECORDS'";
  if (device.planes < 1 || device.planes > 16 || device.max_workers < 1 ||
      device.max_workers > 64 || device.regions < 1 || device.regions > 255 || device.records < 1 ||
      device.records > kMaxRecords) {
    return "device out of range: 1 to 16 planes, 64 workers, 255 regions, 2^24 records";
  }
  return {};
}

std::string parse_enable(const std::vector<std::string_view>& words, TraceItem& item) {
  RegionConfig& config = item.config;
  if (words.size() != 8 || !parse(words[1], item.region) || !parse(words[3], config.workers) ||
      !parse(words[4], config.base, 16) || !parse(words[5], config.length) ||
      !parse(words[6], config.stride) || !parse(words[7], config.store)) {
    return "expected 'enable REGION MODE WORKERS BASE LENGTH STRIDE STORE'";
  }
  if (item.region >= kRegionEnd) return std::string(kNoRegion);
  const std::optional<Mode> mode = find_mode(words[2]);
  if (!mode) {
    return fmt::format("unknown mode '{}'; expected identity, fp32, g_binary or g_ternary",
                       words[2]);
  }
  config.mode = static_cast<std::uint64_t>(*mode);
  return {};
}

std::string parse_item(const std::vector<std::string_view>& words, TraceItem& item) {
  const std::string_view word = words[0];
  if (word == "ready") {
    item.kind = TraceItem::Kind::kReady;
    if (words.size() != 2 || words[1].find_first_not_of("01") != std::string_view::npos ||
        words[1].find('1') == std::string_view::npos) {
      return "expected 'ready' and a pattern of 0 and 1 with at least one 1";
    }
    if (words[1].size() > kMaxReadyPattern) {
      return fmt::format("a ready pattern has at most {} characters", kMaxReadyPattern);
    }
    item.ready = words[1];
    return {};
  }
  if (word == "enable") {
    item.kind = TraceItem::Kind::kEnable;
    return parse_enable(words, item);
  }
  if (word == "clear" || word == "disable") {
    item.kind = word == "clear" ? TraceItem::Kind::kClear : TraceItem::Kind::kDisable;
    if (words.size() != 2 || !parse(words[1], item.region)) {
      return fmt::format("expected '{} REGION'", word);
    }
    return std::string(item.region < kRegionEnd ? "" : kNoRegion);
  }
  if (word == "w" || word == "r") {
    item.request.is_write = word == "w";
    if (words.size() != (item.request.is_write ? 4u : 3u) || !parse(words[1], item.cycle) ||
        !parse(words[2], item.request.address, 16)) {
      return item.request.is_write ? "expected 'w CYCLE ADDRESS DATA'"
                                   : "expected 'r CYCLE ADDRESS'";
    }
    if (item.cycle > kMaxCycle) return "cycles are at most 2^48";
    if (item.request.address >= kAddressEnd) return "addresses are below 2^48";
    if (item.request.is_write && !parse_line(words[3], item.request.data)) {
      return "data are 128 hexadecimal digits";
    }
    return {};
  }
  return fmt::format("unknown item '{}'; expected ready, enable, clear, disable, w or r", word);
}

// An upper bound of the memory that the regions of a trace need. A region keeps its memory when it
// is disabled.
class RegionBytes {
 public:
  // Returns an error message if the regions exceed the limit.
  std::string add(const DeviceLimits& device, const TraceItem& item) {
    const RegionConfig& config = item.config;
    const bool is_rejected = item.region >= device.regions || config.workers == 0 ||
                             config.workers > device.max_workers || config.length > device.records;
    if (is_rejected) return {};  // by the device, which then allocates nothing
    const std::uint64_t bytes =
        RegionMemory::bytes(static_cast<Mode>(config.mode), config.workers, config.length);
    std::uint64_t& held = bytes_[item.region];
    all_ += std::max(bytes, held) - held;
    held = std::max(bytes, held);
    if (all_ <= kMaxRegionBytes) return {};
    return fmt::format(
        "the regions of this trace need {} MiB with {} lines of {} workers here; the limit is {} "
        "MiB: enable fewer lines",
        all_ >> 20, config.length, config.workers, kMaxRegionBytes >> 20);
  }

 private:
  std::array<std::uint64_t, kRegionEnd> bytes_ = {};
  std::uint64_t all_ = 0;
};

}  // namespace

bool operator==(const TraceItem& a, const TraceItem& b) {
  return a.kind == b.kind && a.region == b.region && a.config == b.config && a.ready == b.ready &&
         a.cycle == b.cycle && a.request.is_write == b.request.is_write &&
         a.request.address == b.request.address && a.request.data == b.request.data;
}

Expected<Trace> parse_trace(std::string_view text, std::string_view origin) {
  const auto all_lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  if (all_lines > kMaxTraceLines) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("{}: {} lines; a trace has at most {}: split it", origin, all_lines,
                              kMaxTraceLines));
  }
  Trace trace;
  RegionBytes regions;
  std::size_t number = 0;
  std::size_t lines = 0;  // without skipped ones
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string_view> words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (words.empty() || words[0][0] == '#') continue;
    std::string error;
    if (lines == 0) {
      const bool is_title = words.size() == 2 && fmt::format("{} {}", words[0], words[1]) == kTitle;
      if (!is_title) error = fmt::format("expected '{}'", kTitle);
    } else if (lines == 1) {
      error = parse_device(words, trace.device);
    } else {
      TraceItem& item = trace.items.emplace_back();
      error = parse_item(words, item);
      if (error.empty() && item.kind == TraceItem::Kind::kEnable) {
        error = regions.add(trace.device, item);
      }
    }
    if (!error.empty()) {
      return Status(ErrorCode::kBadConfig, fmt::format("{}:{}: {}", origin, number, error));
    }
    ++lines;
  }
  if (lines >= 2) return trace;
  return Status(ErrorCode::kBadConfig,
                fmt::format("{}: not a trace: the first lines must be '{}' and 'device ...'",
                            origin, kTitle));
}

std::string print_trace(const Trace& trace) {
  const DeviceLimits& device = trace.device;
  return fmt::format("{}\ndevice {} {} {} {}\n", kTitle, device.planes, device.max_workers,
                     device.regions, device.records) +
         print_items(trace.items);
}

std::string print_items(std::span<const TraceItem> items) {
  std::string text;
  for (const TraceItem& item : items) {
    const auto out = std::back_inserter(text);
    const RegionConfig& config = item.config;
    switch (item.kind) {
      case TraceItem::Kind::kReady: fmt::format_to(out, "ready {}", item.ready); break;
      case TraceItem::Kind::kClear: fmt::format_to(out, "clear {}", item.region); break;
      case TraceItem::Kind::kDisable: fmt::format_to(out, "disable {}", item.region); break;
      case TraceItem::Kind::kEnable:
        fmt::format_to(out, "enable {} {} {} {:x} {} {} {}", item.region,
                       to_string(static_cast<Mode>(config.mode)), config.workers, config.base,
                       config.length, config.stride, config.store);
        break;
      case TraceItem::Kind::kRequest:
        fmt::format_to(out, "{} {} {:x}", item.request.is_write ? 'w' : 'r', item.cycle,
                       item.request.address);
        if (item.request.is_write) {
          text += ' ';
          print_line(item.request.data, text);
        }
        break;
    }
    text += '\n';
  }
  return text;
}

std::string print_answers(const std::vector<TraceAnswer>& answers) {
  std::string text = "nf_cxl_answers 1\n";
  for (const TraceAnswer& one : answers) {
    const auto out = std::back_inserter(text);
    const auto code = static_cast<unsigned>(one.answer.fault);
    if (one.is_request) {
      fmt::format_to(out, "a {} {} {} {} ", one.taken, one.answered, code,
                     one.answer.complete ? 1 : 0);
      print_line(one.answer.data, text);
    } else {
      fmt::format_to(out, "e {}", code);
    }
    text += '\n';
  }
  return text;
}

}  // namespace nf::cxl
