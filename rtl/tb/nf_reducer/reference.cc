#include "reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>

namespace nf::rtl {
namespace {

constexpr unsigned kCyclesPerAddition = 2;  // plus one for the first slot

int digit_of(Mode mode, const Line& line, int element) {
  if (mode == Mode::kGBinary) return line[element / 8] >> element % 8 & 1;
  const int unit = element / 160, place = element % 160 / 32, byte = element % 32;
  int value = line[32 * unit + byte];
  for (int i = 0; i < place; ++i) value /= 3;
  return value % 3;
}

Line add_fp32(const Line& a, const Line& b) {
  float x[16], y[16];
  std::memcpy(x, a.data(), sizeof(x));
  std::memcpy(y, b.data(), sizeof(y));
  for (int i = 0; i < 16; ++i) {
    x[i] += y[i];
    if (std::isnan(x[i])) x[i] = std::bit_cast<float>(0x7fc00000u);
  }
  Line sum;
  std::memcpy(sum.data(), x, sizeof(x));
  return sum;
}

int elements(Mode mode) { return mode == Mode::kGBinary ? 512 : mode == Mode::kGTernary ? 320 : 0; }

}  // namespace

unsigned result_windows(Mode mode, std::uint64_t workers) {
  switch (mode) {
    case Mode::kIdentity: return 0;
    case Mode::kFp32: return 1;
    case Mode::kGBinary: return static_cast<unsigned>(std::bit_width(workers));
    case Mode::kGTernary: return static_cast<unsigned>(std::bit_width(2 * workers));
  }
  return 0;
}

Reference::Reference(const Limits& limits, unsigned latency)
    : latency_(latency), regions_(limits.regions) {}

void Reference::enable(unsigned number, const RegionConfig& config) {
  const auto mode = static_cast<Mode>(config.mode);
  Record empty{.arrived = std::vector<bool>(config.workers),
               .counts = std::vector<int>(elements(mode)),
               .slots = std::vector<Line>(elements(mode) == 0 ? config.workers : 0)};
  regions_[number].config = config;
  regions_[number].is_enabled = true;
  regions_[number].records.assign(config.length, empty);
  regions_[number].completed = 0;
}

void Reference::clear(unsigned region) { enable(region, RegionConfig(regions_[region].config)); }

Answer Reference::answer(const Request& request) {
  unsigned fold = 0;
  Region* owner = nullptr;
  const Answer answer = handle(request, fold, owner);
  if (answer.complete) ++owner->completed;
  Error& error = owner != nullptr ? owner->error : device_error_;
  if (answer.fault != Fault::kOk && error.fault == Fault::kOk) {
    error = {answer.fault, request.address};
  }
  return answer;
}

Answer Reference::write(Region& region, Record& record, std::uint64_t worker, const Line& data,
                        unsigned& fold) {
  const auto mode = static_cast<Mode>(region.config.mode);
  if (record.arrived[worker]) return {.fault = Fault::kDuplicate};
  if (mode == Mode::kGTernary && std::ranges::any_of(data, [](int byte) { return byte > 242; })) {
    return {.fault = Fault::kBadDigits};
  }
  for (int e = 0; e < elements(mode); ++e) record.counts[e] += digit_of(mode, data, e);
  if (elements(mode) == 0) record.slots[worker] = data;
  record.arrived[worker] = true;
  const bool complete = std::ranges::count(record.arrived, false) == 0;
  if (complete && mode == Mode::kFp32) {
    record.sum = record.slots.front();
    for (std::size_t w = 1; w < record.slots.size(); ++w) {
      record.sum = add_fp32(record.sum, record.slots[w]);
    }
    const auto additions = static_cast<unsigned>(record.slots.size() - 1);
    fold = additions == 0 ? 0 : 1 + kCyclesPerAddition * additions;
  }
  return {.complete = complete};
}

Answer Reference::read(const Region& region, const Record& record, std::uint64_t window) {
  const auto mode = static_cast<Mode>(region.config.mode);
  if (mode == Mode::kIdentity) {
    if (!record.arrived[window]) return {.fault = Fault::kNotComplete};
    return {.data = record.slots[window]};
  }
  if (std::ranges::count(record.arrived, false) != 0) return {.fault = Fault::kNotComplete};
  if (mode == Mode::kFp32) return {.data = record.sum};
  Answer answer;
  for (int e = 0; e < elements(mode); ++e) {
    const int bit = record.counts[e] >> (window - region.config.workers) & 1;
    answer.data[e / 8] = static_cast<std::uint8_t>(answer.data[e / 8] | bit << e % 8);
  }
  return answer;
}

Answer Reference::handle(const Request& request, unsigned& fold, Region*& owner) {
  const bool is_misaligned = request.address % 64 != 0;
  for (Region& region : regions_) {
    const RegionConfig& c = region.config;
    const auto mode = static_cast<Mode>(c.mode);
    const std::uint64_t windows = c.workers + result_windows(mode, c.workers);
    if (!region.is_enabled || request.address < c.base ||
        request.address >= c.base + (windows << c.stride)) {
      continue;
    }
    owner = &region;
    const std::uint64_t window = (request.address - c.base) >> c.stride;
    const std::uint64_t line = (request.address - c.base - (window << c.stride)) / 64;
    if (is_misaligned) return {.fault = Fault::kMisaligned};
    if (line >= c.length) return {.fault = Fault::kOutOfRange};
    const bool is_of_worker = window < c.workers;
    if (request.is_write) {
      if (!is_of_worker) return {.fault = Fault::kWrongMode};
      return write(region, region.records[line], window, request.data, fold);
    }
    if (is_of_worker && mode != Mode::kIdentity) return {.fault = Fault::kWrongMode};
    return read(region, region.records[line], window);
  }
  return {.fault = is_misaligned ? Fault::kMisaligned : Fault::kOutOfRange};
}

std::vector<Answer> Reference::play(const std::vector<Request>& requests,
                                    const std::string& ready) {
  std::vector<Answer> answers;
  std::vector<unsigned> folds;
  for (const Request& request : requests) {
    unsigned fold = 0;
    Region* owner = nullptr;
    answers.push_back(handle(request, fold, owner));
    folds.push_back(fold);
  }
  // Stages hold request numbers, or -1 if empty.
  std::deque<int> stages(latency_, -1);
  std::size_t next = 0, done = 0;
  unsigned waited = 0;  // cycles that the request has spent in the last stage
  bool is_answered = false;
  for (std::uint64_t cycle = 0; done < requests.size(); ++cycle) {
    const int last = stages.back();
    if (last >= 0 && !is_answered && ready[cycle % ready.size()] == '1') {
      answers[last].answered = cycle;
      is_answered = true;
      ++done;
    }
    const bool is_summed = last < 0 || waited >= folds[last];
    ++waited;
    if (last >= 0 && !(is_answered && is_summed)) continue;
    stages.pop_back();
    const bool enters = next < requests.size() && cycle >= requests[next].cycle;
    stages.push_front(enters ? static_cast<int>(next) : -1);
    if (enters) answers[next++].taken = cycle;
    waited = 0;
    is_answered = false;
  }
  return answers;
}

}  // namespace nf::rtl
