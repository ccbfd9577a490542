// The registers of the controller, and the regions that they describe (docs/cxl.md#registers).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cxl/fault.h"
#include "cxl/mode.h"

namespace nf::cxl {

inline constexpr unsigned kAddressBits = 48;
inline constexpr std::uint64_t kDeviceId = 0x4e46'4358'4c00'0001u;  // "NFCXL", version 1

// The build-time limits of a controller.
struct DeviceLimits {
  std::uint32_t planes = 8;
  std::uint32_t max_workers = 64;  // at most 64: arrivals are one word
  std::uint32_t regions = 4;
  std::uint64_t records = 1u << 20;
  std::uint32_t last_generation = 0xffff'ffffu;  // lowered by tests

  friend bool operator==(const DeviceLimits&, const DeviceLimits&) = default;
};

// The offsets of registers, of the device and within a region.
namespace device_register {
inline constexpr std::uint64_t kId = 0x00, kCapabilities = 0x08, kError = 0x10,
                               kErrorAddress = 0x18, kGeneration = 0x20;
}
namespace region_register {
inline constexpr std::uint64_t kControl = 0x00, kMode = 0x08, kWorkers = 0x10, kBase = 0x18,
                               kLength = 0x20, kStride = 0x28, kStore = 0x30, kStatus = 0x38,
                               kError = 0x40, kErrorAddress = 0x48, kCompleted = 0x50,
                               kErrors = 0x58;
inline constexpr std::uint64_t kFirst = 0x100, kPitch = 0x80;

constexpr std::uint64_t at(std::uint64_t region, std::uint64_t offset) {
  return kFirst + kPitch * region + offset;
}
}  // namespace region_register

enum class Control : std::uint64_t { kDisable, kEnable, kClear };

// The content of the registers, valid or not.
struct RegionConfig {
  std::uint64_t mode = 0;
  std::uint64_t workers = 0;
  std::uint64_t base = 0;
  std::uint64_t length = 0;  // lines per window
  std::uint64_t stride = 0;  // log2 of the bytes of a window
  std::uint64_t store = 0;   // the first record

  friend bool operator==(const RegionConfig&, const RegionConfig&) = default;
};

struct Region {
  RegionConfig config;
  bool is_enabled = false;
  std::uint32_t generation = 0;
  std::uint64_t completed = 0;
  Fault error = Fault::kOk;
  std::uint64_t error_address = 0;
  std::uint32_t errors = 0;

  // Precondition: the region is enabled.
  Mode mode() const { return static_cast<Mode>(config.mode); }
  std::uint64_t span() const {
    return (config.workers + result_windows_of(mode(), config.workers)) << config.stride;
  }
};

// The target of a request. `region` is empty if the address is in no region.
struct Place {
  Fault fault = Fault::kOk;
  std::optional<unsigned> region = {};
  std::uint64_t window = 0;
  std::uint64_t line = 0;
};

class Registers {
 public:
  explicit Registers(const DeviceLimits& limits);

  // A host's access to a register. Reading a register that does not exist returns 0.
  Fault write(std::uint64_t offset, std::uint64_t value);
  std::uint64_t read(std::uint64_t offset) const;

  const DeviceLimits& limits() const { return limits_; }
  const Region& region(unsigned number) const { return regions_[number]; }

  // Accesses by the controller itself.
  Place locate(std::uint64_t address, bool is_write) const;
  void report(std::optional<unsigned> region, Fault fault, std::uint64_t address);
  void complete_line(unsigned region) { ++regions_[region].completed; }

 private:
  Fault control(Region& region, std::uint64_t value);
  Fault write_region(Region& region, std::uint64_t offset, std::uint64_t value);
  Fault check(const Region& region) const;
  bool overlaps(const Region& region) const;
  Fault take_generation(Region& region);

  DeviceLimits limits_;
  std::vector<Region> regions_;
  std::uint32_t generation_ = 0;
  Fault error_ = Fault::kOk;
  std::uint64_t error_address_ = 0;
};

}  // namespace nf::cxl
