#include "limits_test.h"

#include <algorithm>

#include "checks.h"
#include "device.h"

namespace nf::rtl {
namespace {

void check_generations(Device& device, Checks& checks, std::uint64_t last) {
  checks.equal("enable", device.enable(0, kValid), Fault::kOk);
  for (std::uint64_t i = 2; i <= last; ++i) checks.equal("clear", device.control(0, 2), Fault::kOk);
  checks.equal("the last generation", device.read_register(0x20), last);
  checks.equal("clear", device.control(0, 2), Fault::kExhausted);
  checks.equal("still enabled", device.read_register(region(0, 0x38)) & 1, 1);
  RegionConfig other = kValid;
  checks.equal("exhausted, and overlapping", device.enable(1, other), Fault::kOverlap);
  other.base += 0x10000;
  other.store = 4;
  checks.equal("enable another", device.enable(1, other), Fault::kExhausted);
  checks.equal("it is not enabled", device.read_register(region(1, 0x38)) & 1, 0);
  checks.equal("exhausted, and not enabled", device.control(1, 2), Fault::kOutOfRange);
  checks.equal("exhausted, and enabled", device.control(0, 1), Fault::kLocked);
  checks.equal("generation", device.read_register(0x20), last);
}

// The most workers whose counters fit, and one more.
void check_planes(Device& device, Checks& checks) {
  const Limits limits = device.limits();
  const std::uint64_t max_sum = (std::uint64_t{1} << limits.planes) - 1;
  const std::uint64_t workers[] = {limits.workers, limits.workers, max_sum, max_sum / 2};
  for (std::uint64_t mode = 0; mode < 4; ++mode) {
    RegionConfig config = kValid;
    config.mode = mode;
    config.workers = std::min<std::uint64_t>(workers[mode], limits.workers);
    checks.equal("the most workers", device.enable(0, config), Fault::kOk);
    device.control(0, 0);
    ++config.workers;
    checks.equal("one more worker", device.enable(0, config), Fault::kTooManyWorkers);
  }
}

void check_errors(Device& device, Checks& checks, std::uint64_t max_errors) {
  const std::uint64_t errors = region(0, 0x58);
  for (std::uint64_t i = device.read_register(errors); i < max_errors; ++i) {
    checks.equal("errors", device.read_register(errors), i);
    device.control(0, 3);
  }
  checks.equal("the maximum error count", device.read_register(errors), max_errors);
  checks.equal("one more", device.control(0, 3), Fault::kWrongMode);
  checks.equal("the maximum error count", device.read_register(errors), max_errors);
}

}  // namespace

int test_limits(std::uint64_t last_generation, std::uint64_t max_errors) {
  Device device;
  Checks checks;
  check_planes(device, checks);
  device.reset();
  check_generations(device, checks, last_generation);
  check_errors(device, checks, max_errors);
  device.reset();
  checks.equal("generation after a reset", device.read_register(0x20), 0);
  checks.equal("errors after a reset", device.read_register(region(0, 0x58)), 0);
  checks.equal("enable after a reset", device.enable(0, kValid), Fault::kOk);
  return checks.result();
}

}  // namespace nf::rtl
