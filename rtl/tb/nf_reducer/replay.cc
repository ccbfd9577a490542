#include "replay.h"

#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

namespace nf::rtl {
namespace {

// Reads the lines of a file, without comments and blank lines.
class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file), in_(file) {}

  bool is_open() const { return in_.is_open(); }

  bool next(std::string& line) {
    while (std::getline(in_, line)) {
      ++number_;
      if (!line.empty() && line[0] != '#') return true;
    }
    return false;
  }

  std::string where() const { return file_ + ":" + std::to_string(number_); }

 private:
  std::string file_;
  std::ifstream in_;
  std::uint64_t number_ = 0;
};

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool parse_data(const std::string& text, Line& line) {
  if (text.size() != 2 * line.size()) return false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    line[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return true;
}

bool parse_request(const std::string& text, Request& request) {
  std::istringstream words(text);
  std::string kind, data;
  words >> kind >> std::dec >> request.cycle >> std::hex >> request.address;
  request.is_write = kind == "w";
  if (request.is_write) words >> data;
  return !words.fail() && (!request.is_write || parse_data(data, request.data));
}

bool parse_answer(const std::string& text, Answer& answer) {
  std::istringstream words(text);
  std::string kind, data;
  unsigned code = 0, complete = 0;
  words >> kind >> answer.taken >> answer.answered >> code >> complete >> data;
  answer.fault = static_cast<Fault>(code);
  answer.complete = complete != 0;
  return !words.fail() && kind == "a" && parse_data(data, answer.data);
}

std::string describe(const Answer& a) {
  std::ostringstream out;
  out << "taken " << a.taken << " answered " << a.answered << " code "
      << static_cast<unsigned>(a.fault) << " complete " << a.complete << " data ";
  for (const std::uint8_t byte : a.data) {
    out << "0123456789abcdef"[byte >> 4] << "0123456789abcdef"[byte & 15];
  }
  return out.str();
}

// Executes enable, clear or disable. Returns its fault, or nullopt if the text is none of them.
std::optional<Fault> control(Device& device, const std::string& text) {
  std::istringstream words(text);
  std::string kind;
  unsigned region = 0;
  words >> kind >> region;
  if (kind == "clear" && words) return device.control(region, 2);
  if (kind == "disable" && words) return device.control(region, 0);
  if (kind != "enable") return {};
  std::string mode;
  RegionConfig config;
  words >> mode >> config.workers >> std::hex >> config.base >> std::dec >> config.length >>
      config.stride >> config.store;
  for (const char* name : kModeNames) {
    if (mode == name) return words ? std::optional(device.enable(region, config)) : std::nullopt;
    ++config.mode;
  }
  return {};
}

class Replay {
 public:
  Replay(Device& device, const std::string& trace, const std::string& answers)
      : device_(device), trace_(trace), answers_(answers) {}

  std::string run();
  std::uint64_t compared() const { return compared_; }

 private:
  bool is_request() const { return text_[0] == 'w' || text_[0] == 'r'; }
  bool is_ready() const { return text_.rfind("ready ", 0) == 0; }
  std::string header();
  std::string play_requests();
  void compare(const Answer& answer);

  Device& device_;
  Reader trace_, answers_;
  std::string text_, ready_ = "1", error_;
  bool has_text_ = false;
  std::uint64_t compared_ = 0;
};

std::string Replay::header() {
  std::string answers;
  if (!trace_.is_open() || !answers_.is_open()) return "cannot open the trace or its answers";
  if (!trace_.next(text_) || text_ != "nf_cxl_trace 1") return trace_.where() + ": not a trace";
  if (!answers_.next(answers) || answers != "nf_cxl_answers 1") {
    return answers_.where() + ": not a file of answers";
  }
  std::string word;
  Limits limits;
  if (trace_.next(text_)) {
    std::istringstream words(text_);
    words >> word >> limits.planes >> limits.workers >> limits.regions >> limits.records;
    if (words && word == "device") {
      // The device may have more records than the trace uses.
      const Limits own = device_.limits();
      if (limits.planes == own.planes && limits.workers == own.workers &&
          limits.regions == own.regions && limits.records <= own.records) {
        return {};
      }
      return trace_.where() + ": the trace is for another device: " + text_;
    }
  }
  return trace_.where() + ": expected a device";
}

void Replay::compare(const Answer& answer) {
  if (!error_.empty()) return;
  std::string line;
  Answer expected;
  if (!answers_.next(line) || !parse_answer(line, expected)) {
    error_ = answers_.where() + ": expected an answer";
  } else if (answer != expected) {
    error_ = answers_.where() + ":\n  the model: " + describe(expected) +
             "\n  the RTL:   " + describe(answer);
  }
  ++compared_;
}

std::string Replay::play_requests() {
  Traffic traffic{.next = [this]() -> std::optional<Request> {
                    Request request;
                    if (!has_text_ || !error_.empty()) return {};
                    // "ready" starts with an r too.
                    if (!is_request() || is_ready()) return {};
                    if (!parse_request(text_, request)) {
                      error_ = trace_.where() + ": not a request";
                      return {};
                    }
                    has_text_ = trace_.next(text_);
                    return request;
                  },
                  .answered = [this](const Answer& answer) { compare(answer); },
                  .ready = ready_};
  const bool is_alive = device_.play(traffic);
  if (error_.empty() && !is_alive) error_ = trace_.where() + ": the RTL does not answer";
  return error_;
}

std::string Replay::run() {
  if (std::string error = header(); !error.empty()) return error;
  has_text_ = trace_.next(text_);
  while (has_text_) {
    if (is_ready()) {
      ready_ = text_.substr(6);
      if (ready_.find_first_not_of("01") != std::string::npos ||
          ready_.find('1') == std::string::npos) {
        return trace_.where() + ": expected a pattern of 0 and 1 with at least one 1";
      }
    } else if (is_request()) {
      if (std::string error = play_requests(); !error.empty()) return error;
      continue;  // the next line has already been read
    } else {
      const std::optional<Fault> fault = control(device_, text_);
      if (!fault) return trace_.where() + ": unknown item";
      std::string line;
      const std::string expected = "e " + std::to_string(static_cast<unsigned>(*fault));
      if (!answers_.next(line) || line != expected) {
        return answers_.where() + ": the RTL answers " + expected;
      }
    }
    has_text_ = trace_.next(text_);
  }
  if (std::string line; answers_.next(line))
    return answers_.where() + ": more answers than requests";
  return {};
}

}  // namespace

std::string replay(Device& device, const std::string& trace_file, const std::string& answers_file,
                   std::uint64_t& compared) {
  Replay replay(device, trace_file, answers_file);
  std::string error = replay.run();
  compared = replay.compared();
  return error;
}

}  // namespace nf::rtl
