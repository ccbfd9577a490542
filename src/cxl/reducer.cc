#include "cxl/reducer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "cxl/digits.h"

namespace nf::cxl {
namespace {

constexpr std::size_t kFp32Lanes = kLineBytes / sizeof(float);
constexpr std::uint32_t kNan = 0x7fc0'0000u;

using Fp32Line = std::array<float, kFp32Lanes>;

}  // namespace

Line fold_fp32(std::span<const Line> workers) {
  auto sum = std::bit_cast<Fp32Line>(workers.front());
  for (const Line& worker : workers.subspan(1)) {
    const auto values = std::bit_cast<Fp32Line>(worker);
    for (std::size_t i = 0; i < kFp32Lanes; ++i) {
      sum[i] += values[i];
      if (std::isnan(sum[i])) sum[i] = std::bit_cast<float>(kNan);
    }
  }
  return std::bit_cast<Line>(sum);
}

RegionMemory::RegionMemory(Mode mode, std::uint64_t workers, std::uint64_t lines)
    : mode_(mode),
      workers_(workers),
      all_workers_(~std::uint64_t{0} >> (64 - workers)),
      planes_(planes_of(mode, workers)),
      tags_(lines),
      lines_(lines * (counts_digits(mode) ? planes_ : workers)),
      sums_(mode == Mode::kFp32 ? lines : 0) {}

std::uint64_t RegionMemory::bytes(Mode mode, std::uint64_t workers, std::uint64_t lines) {
  const std::uint64_t kept = counts_digits(mode)   ? planes_of(mode, workers)
                             : mode == Mode::kFp32 ? workers + 1
                                                   : workers;
  return lines * (sizeof(Tag) + kept * sizeof(Line));
}

Fault RegionMemory::write(std::uint32_t generation, std::uint64_t worker, std::uint64_t line,
                          const Line& data, bool& complete) {
  Tag& tag = tags_[line];
  const bool is_first = tag.generation != generation;
  const std::uint64_t arrived = is_first ? 0 : tag.arrived;
  const std::uint64_t own = std::uint64_t{1} << worker;
  if ((arrived & own) != 0) return Fault::kDuplicate;
  if (counts_digits(mode_)) {
    Digits digits;
    if (!decode_digits(mode_, data, digits)) return Fault::kBadDigits;
    const std::span<Line> planes(&lines_[line * planes_], planes_);
    if (is_first) std::fill(planes.begin(), planes.end(), Line{});
    if (would_wrap(digits, planes)) return Fault::kOverflow;
    add(digits, planes);
  } else {
    lines_[line * workers_ + worker] = data;
  }
  tag = {.arrived = arrived | own, .generation = generation};
  complete = tag.arrived == all_workers_;
  if (complete && mode_ == Mode::kFp32) {
    sums_[line] = fold_fp32(std::span(&lines_[line * workers_], workers_));
  }
  return Fault::kOk;
}

Fault RegionMemory::read(std::uint32_t generation, std::uint64_t window, std::uint64_t line,
                         Line& data) const {
  const Tag& tag = tags_[line];
  const std::uint64_t arrived = tag.generation == generation ? tag.arrived : 0;
  if (window < workers_) {
    if ((arrived >> window & 1) == 0) return Fault::kNotComplete;
    data = lines_[line * workers_ + window];
    return Fault::kOk;
  }
  if (arrived != all_workers_) return Fault::kNotComplete;
  data = mode_ == Mode::kFp32 ? sums_[line] : lines_[line * planes_ + (window - workers_)];
  return Fault::kOk;
}

Reducer::Reducer(const DeviceLimits& limits) : registers_(limits), memories_(limits.regions) {}

Answer Reducer::handle(const Request& request) {
  const Place place = registers_.locate(request.address, request.is_write);
  Answer answer{.fault = place.fault};
  if (answer.fault == Fault::kOk) {
    RegionMemory& memory = memories_[*place.region];
    const Region& region = registers_.region(*place.region);
    const std::uint32_t generation = region.generation;
    answer.fault =
        request.is_write
            ? memory.write(generation, place.window, place.line, request.data, answer.complete)
            : memory.read(generation, place.window, place.line, answer.data);
    if (answer.complete) {
      registers_.complete_line(*place.region);
      if (region.mode() == Mode::kFp32) {
        answer.additions = static_cast<std::uint32_t>(region.config.workers - 1);
      }
    }
  }
  if (answer.fault != Fault::kOk) registers_.report(place.region, answer.fault, request.address);
  return answer;
}

Fault Reducer::write_register(std::uint64_t offset, std::uint64_t value) {
  const Fault fault = registers_.write(offset, value);
  if (fault != Fault::kOk || offset < region_register::kFirst) return fault;
  const auto number =
      static_cast<unsigned>((offset - region_register::kFirst) / region_register::kPitch);
  const Region& region = registers_.region(number);
  const bool is_enabled_now = offset == region_register::at(number, region_register::kControl) &&
                              value == static_cast<std::uint64_t>(Control::kEnable);
  if (is_enabled_now) {
    memories_[number] = RegionMemory(region.mode(), region.config.workers, region.config.length);
  }
  return fault;
}

Fault Reducer::enable(unsigned region, const RegionConfig& config) {
  namespace reg = region_register;
  const auto put = [&](std::uint64_t offset, std::uint64_t value) {
    return write_register(reg::at(region, offset), value);
  };
  put(reg::kMode, config.mode);
  put(reg::kWorkers, config.workers);
  put(reg::kBase, config.base);
  put(reg::kLength, config.length);
  put(reg::kStride, config.stride);
  put(reg::kStore, config.store);
  return put(reg::kControl, static_cast<std::uint64_t>(Control::kEnable));
}

Fault Reducer::control(unsigned region, Control control) {
  return write_register(region_register::at(region, region_register::kControl),
                        static_cast<std::uint64_t>(control));
}

}  // namespace nf::cxl
