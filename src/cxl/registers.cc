#include "cxl/registers.h"

#include <algorithm>
#include <limits>

#include "cxl/line.h"

namespace nf::cxl {
namespace {

constexpr std::uint64_t kAddressEnd = std::uint64_t{1} << kAddressBits;

bool intersect(std::uint64_t a, std::uint64_t a_size, std::uint64_t b, std::uint64_t b_size) {
  return a < b + b_size && b < a + a_size;
}

// The configuration register at this offset, or nullptr if there is none.
std::uint64_t* config_register(RegionConfig& config, std::uint64_t offset) {
  switch (offset) {
    case region_register::kMode: return &config.mode;
    case region_register::kWorkers: return &config.workers;
    case region_register::kBase: return &config.base;
    case region_register::kLength: return &config.length;
    case region_register::kStride: return &config.stride;
    case region_register::kStore: return &config.store;
    default: return nullptr;
  }
}

std::uint64_t read_region(const Region& region, std::uint64_t offset) {
  RegionConfig config = region.config;
  if (const std::uint64_t* held = config_register(config, offset)) return *held;
  switch (offset) {
    case region_register::kStatus: {
      const bool is_complete = region.is_enabled && region.completed == config.length;
      return (region.is_enabled ? 1u : 0u) | (is_complete ? 2u : 0u) |
             (region.error != Fault::kOk ? 4u : 0u);
    }
    case region_register::kError: return static_cast<std::uint64_t>(region.error);
    case region_register::kErrorAddress: return region.error_address;
    case region_register::kCompleted: return region.completed;
    case region_register::kErrors: return region.errors;
    default: return 0;
  }
}

}  // namespace

Registers::Registers(const DeviceLimits& limits) : limits_(limits), regions_(limits.regions) {}

std::uint64_t Registers::read(std::uint64_t offset) const {
  switch (offset) {
    case device_register::kId: return kDeviceId;
    case device_register::kCapabilities:
      return limits_.planes | std::uint64_t{limits_.max_workers} << 8 |
             std::uint64_t{limits_.regions} << 24 | limits_.records << 32;
    case device_register::kError: return static_cast<std::uint64_t>(error_);
    case device_register::kErrorAddress: return error_address_;
    case device_register::kGeneration: return generation_;
    default: break;
  }
  if (offset < region_register::kFirst) return 0;
  const std::uint64_t number = (offset - region_register::kFirst) / region_register::kPitch;
  if (number >= regions_.size()) return 0;
  return read_region(regions_[number], offset - region_register::at(number, 0));
}

Fault Registers::write(std::uint64_t offset, std::uint64_t value) {
  if (offset == device_register::kError) {
    error_ = Fault::kOk;
    error_address_ = 0;
    return Fault::kOk;
  }
  if (offset < region_register::kFirst) {
    const bool is_known = offset % 8 == 0 && offset <= device_register::kGeneration;
    const Fault fault = is_known ? Fault::kLocked : Fault::kOutOfRange;
    report({}, fault, 0);
    return fault;
  }
  const std::uint64_t number = (offset - region_register::kFirst) / region_register::kPitch;
  if (number >= regions_.size()) {
    report({}, Fault::kOutOfRange, 0);
    return Fault::kOutOfRange;
  }
  const Fault fault =
      write_region(regions_[number], offset - region_register::at(number, 0), value);
  if (fault != Fault::kOk) report(static_cast<unsigned>(number), fault, 0);
  return fault;
}

Fault Registers::write_region(Region& region, std::uint64_t offset, std::uint64_t value) {
  if (offset == region_register::kControl) return control(region, value);
  if (std::uint64_t* held = config_register(region.config, offset)) {
    if (region.is_enabled) return Fault::kLocked;
    *held = value;
    return Fault::kOk;
  }
  if (offset == region_register::kError) {
    region.error = Fault::kOk;
    region.error_address = 0;
    return Fault::kOk;
  }
  const bool is_known = offset % 8 == 0 && offset <= region_register::kErrors;
  return is_known ? Fault::kLocked : Fault::kOutOfRange;
}

Fault Registers::control(Region& region, std::uint64_t value) {
  switch (value) {
    case static_cast<std::uint64_t>(Control::kDisable):
      region.is_enabled = false;
      return Fault::kOk;
    case static_cast<std::uint64_t>(Control::kEnable): {
      if (const Fault fault = check(region); fault != Fault::kOk) return fault;
      const Fault fault = take_generation(region);
      region.is_enabled = fault == Fault::kOk;
      return fault;
    }
    case static_cast<std::uint64_t>(Control::kClear):
      return region.is_enabled ? take_generation(region) : Fault::kOutOfRange;
    default: return Fault::kWrongMode;
  }
}

Fault Registers::take_generation(Region& region) {
  if (generation_ == limits_.last_generation) return Fault::kExhausted;
  region.generation = ++generation_;
  region.completed = 0;
  return Fault::kOk;
}

Fault Registers::check(const Region& region) const {
  const RegionConfig& config = region.config;
  if (region.is_enabled) return Fault::kLocked;
  if (config.mode >= std::size(kModes)) return Fault::kWrongMode;
  if (config.workers == 0 || config.workers > limits_.max_workers ||
      planes_of(region.mode(), config.workers) > limits_.planes) {
    return Fault::kTooManyWorkers;
  }
  if (config.base % kLineBytes != 0) return Fault::kMisaligned;
  if (config.stride >= kAddressBits || config.length == 0 ||
      config.length > (std::uint64_t{1} << config.stride) / kLineBytes ||
      config.base >= kAddressEnd) {
    return Fault::kOutOfRange;
  }
  const std::uint64_t windows = config.workers + result_windows_of(region.mode(), config.workers);
  if (windows > (kAddressEnd - config.base) >> config.stride) return Fault::kOutOfRange;
  if (config.store > limits_.records || config.length > limits_.records - config.store) {
    return Fault::kOutOfRange;
  }
  return overlaps(region) ? Fault::kOverlap : Fault::kOk;
}

bool Registers::overlaps(const Region& region) const {
  return std::any_of(regions_.begin(), regions_.end(), [&](const Region& other) {
    return other.is_enabled &&
           (intersect(region.config.base, region.span(), other.config.base, other.span()) ||
            intersect(region.config.store, region.config.length, other.config.store,
                      other.config.length));
  });
}

Place Registers::locate(std::uint64_t address, bool is_write) const {
  Place place;
  for (unsigned number = 0; number < regions_.size(); ++number) {
    const Region& region = regions_[number];
    if (!region.is_enabled || address - region.config.base >= region.span()) continue;
    const std::uint64_t offset = address - region.config.base;
    place.region = number;
    place.window = offset >> region.config.stride;
    place.line = (offset & ((std::uint64_t{1} << region.config.stride) - 1)) >> kLineShift;
    if (address % kLineBytes != 0) {
      place.fault = Fault::kMisaligned;
    } else if (place.line >= region.config.length) {
      place.fault = Fault::kOutOfRange;
    } else {
      const bool is_of_worker = place.window < region.config.workers;
      const bool is_known = is_of_worker ? is_write || region.mode() == Mode::kIdentity : !is_write;
      place.fault = is_known ? Fault::kOk : Fault::kWrongMode;
    }
    return place;
  }
  place.fault = address % kLineBytes != 0 ? Fault::kMisaligned : Fault::kOutOfRange;
  return place;
}

void Registers::report(std::optional<unsigned> number, Fault fault, std::uint64_t address) {
  if (!number) {
    if (error_ != Fault::kOk) return;
    error_ = fault;
    error_address_ = address;
    return;
  }
  Region& region = regions_[*number];
  if (region.errors < std::numeric_limits<std::uint32_t>::max()) ++region.errors;
  if (region.error != Fault::kOk) return;
  region.error = fault;
  region.error_address = address;
}

}  // namespace nf::cxl
