#include "register_test.h"

#include <iterator>
#include <vector>

#include "checks.h"
#include "device.h"

namespace nf::rtl {
namespace {

RegionConfig with(std::uint64_t RegionConfig::*field, std::uint64_t value) {
  RegionConfig config = kValid;
  config.*field = value;
  return config;
}

void check_device(Device& device, Checks& checks, const Limits& limits) {
  checks.equal("id", device.read_register(0x00), 0x4e4643584c000001);
  checks.equal("planes", device.limits().planes, limits.planes);
  checks.equal("workers", device.limits().workers, limits.workers);
  checks.equal("regions", device.limits().regions, limits.regions);
  checks.equal("records", device.limits().records, limits.records);
  checks.equal("generation", device.read_register(0x20), 0);
  checks.equal("write id", device.write_register(0x00, 1), Fault::kLocked);
  checks.equal("device error", device.read_register(0x10), 9);
  checks.equal("of an access", device.read_register(0x18), 0);
  checks.equal("no such register", device.write_register(0x28, 1), Fault::kOutOfRange);
  checks.equal("the first error stays", device.read_register(0x10), 9);
  checks.equal("clear", device.write_register(0x10, 0), Fault::kOk);
  checks.equal("cleared", device.read_register(0x10), 0);
  device.write_register(region(0, 0x10), 3);
  checks.equal("clear with any value", device.write_register(0x10, 7), Fault::kOk);
  checks.equal("no other register", device.read_register(region(0, 0x10)), 3);
  checks.equal("no such region", device.write_register(region(limits.regions, 0), 1),
               Fault::kOutOfRange);
  checks.equal("between registers", device.write_register(region(0, 4), 1), Fault::kOutOfRange);
  checks.equal("beyond registers", device.write_register(region(0, 0x60), 1), Fault::kOutOfRange);
  for (const std::uint64_t at : {std::uint64_t{0x28}, region(limits.regions, 8), region(0, 4),
                                 region(0, 0x60), region(0, 0x78)}) {
    checks.equal("zero where there is no register", device.read_register(at), 0);
  }
  checks.equal("read-only", device.write_register(region(0, 0x38), 1), Fault::kLocked);
  checks.equal("a control above 2", device.write_register(region(0, 0), 3), Fault::kWrongMode);
  checks.equal("clear a disabled region", device.control(0, 2), Fault::kOutOfRange);
  checks.equal("errors", device.read_register(region(0, 0x58)), 5);
  checks.equal("the first", device.read_register(region(0, 0x40)), 6);
  checks.equal("of an access", device.read_register(region(0, 0x48)), 0);
  checks.equal("clear it", device.write_register(region(0, 0x40), 0), Fault::kOk);
  checks.equal("status", device.read_register(region(0, 0x38)), 0);
}

void check_rejected_regions(Device& device, Checks& checks, const Limits& limits) {
  const std::uint64_t records = limits.records;
  const struct {
    const char* what;
    RegionConfig config;
    Fault fault;
  } cases[] = {
      {"mode 4", with(&RegionConfig::mode, 4), Fault::kWrongMode},
      {"no workers", with(&RegionConfig::workers, 0), Fault::kTooManyWorkers},
      {"too many workers", with(&RegionConfig::workers, limits.workers + 1),
       Fault::kTooManyWorkers},
      {"2^32 workers", with(&RegionConfig::workers, 1ull << 32), Fault::kTooManyWorkers},
      {"misaligned base", with(&RegionConfig::base, 0x1020), Fault::kMisaligned},
      {"base of 49 bits", with(&RegionConfig::base, 1ull << 48), Fault::kOutOfRange},
      {"no lines", with(&RegionConfig::length, 0), Fault::kOutOfRange},
      {"lines beyond the window", with(&RegionConfig::length, 5), Fault::kOutOfRange},
      {"2^63 lines", with(&RegionConfig::length, 1ull << 63), Fault::kOutOfRange},
      {"stride 48", with(&RegionConfig::stride, 48), Fault::kOutOfRange},
      {"stride 5", with(&RegionConfig::stride, 5), Fault::kOutOfRange},
      {"windows above 2^48", with(&RegionConfig::stride, 47), Fault::kOutOfRange},
      {"records beyond", with(&RegionConfig::store, records - 3), Fault::kOutOfRange},
      {"records far beyond", with(&RegionConfig::store, ~0ull), Fault::kOutOfRange},
      {"the last records", with(&RegionConfig::store, records - 4), Fault::kOk},
      // 3 + 2 windows of 256 bytes end at 2^48.
      {"the last addresses", with(&RegionConfig::base, (1ull << 48) - 5 * 256), Fault::kOk},
      {"a line too far", with(&RegionConfig::base, (1ull << 48) - 5 * 256 + 64),
       Fault::kOutOfRange},
  };
  for (const auto& c : cases) {
    device.write_register(region(0, 0x40), 0);
    const std::uint64_t errors = device.read_register(region(0, 0x58));
    checks.equal(c.what, device.enable(0, c.config), c.fault);
    checks.equal(c.what, device.read_register(region(0, 0x38)) & 1, c.fault == Fault::kOk);
    checks.equal("the error", device.read_register(region(0, 0x40)),
                 static_cast<std::uint64_t>(c.fault));
    checks.equal("is counted", device.read_register(region(0, 0x58)) - errors,
                 c.fault == Fault::kOk ? 0 : 1);
    device.control(0, 0);
  }
}

// Writable registers read back; read-only registers are locked.
void check_kinds(Device& device, Checks& checks, const Limits& limits) {
  const unsigned last = limits.regions - 1;
  checks.equal("enable", device.enable(last, kValid), Fault::kOk);
  device.control(last, 0);
  const std::uint64_t kept[] = {kValid.mode,   kValid.workers, kValid.base,
                                kValid.length, kValid.stride,  kValid.store};
  for (std::uint64_t i = 0; i < std::size(kept); ++i) {
    checks.equal("reads back", device.read_register(region(last, 8 * (i + 1))), kept[i]);
  }
  for (const std::uint64_t at : {std::uint64_t{0x08}, std::uint64_t{0x18}, std::uint64_t{0x20},
                                 region(last, 0x48), region(last, 0x50), region(last, 0x58)}) {
    checks.equal("read-only", device.write_register(at, 1), Fault::kLocked);
  }
  checks.equal("write-only", device.read_register(region(last, 0)), 0);
}

// If two errors apply, enable reports the first in its order. Checks each pair of neighbours.
void check_order(Device& device, Checks& checks, const Limits& limits) {
  RegionConfig config = kValid;
  config.length = 0;
  config.base = 0x1020;
  checks.equal("misaligned base, no lines", device.enable(0, config), Fault::kMisaligned);
  config.workers = limits.workers + 1;
  checks.equal("and too many workers", device.enable(0, config), Fault::kTooManyWorkers);
  config.mode = 4;
  checks.equal("and mode 4", device.enable(0, config), Fault::kWrongMode);
  checks.equal("enable", device.enable(1, kValid), Fault::kOk);
  config = kValid;
  config.length = 5;
  checks.equal("too long, and the same windows", device.enable(0, config), Fault::kOutOfRange);
  device.control(1, 0);
}

void check_overlap(Device& device, Checks& checks) {
  checks.equal("enable", device.enable(0, kValid), Fault::kOk);
  checks.equal("generation", device.read_register(0x20), 5);
  checks.equal("locked", device.control(0, 1), Fault::kLocked);
  checks.equal("still enabled", device.read_register(region(0, 0x38)) & 1, 1);
  checks.equal("locked", device.write_register(region(0, 0x10), 2), Fault::kLocked);
  checks.equal("untouched", device.read_register(region(0, 0x10)), 3);
  RegionConfig other = kValid;
  checks.equal("the same", device.enable(1, other), Fault::kOverlap);
  other.store = 4;
  checks.equal("the same windows", device.enable(1, other), Fault::kOverlap);
  other.base = 0x1000 + 5 * 256 - 64;
  checks.equal("one line", device.enable(1, other), Fault::kOverlap);
  other.base += 64;
  checks.equal("after it", device.enable(1, other), Fault::kOk);
  device.control(1, 0);
  other.base = 0x1000 - 5 * 256 + 64;
  checks.equal("one line below", device.enable(1, other), Fault::kOverlap);
  other.base -= 64;
  checks.equal("before it", device.enable(1, other), Fault::kOk);
  device.control(1, 0);
  other.store = 3;
  checks.equal("one record", device.enable(1, other), Fault::kOverlap);
  checks.equal("clear", device.control(0, 2), Fault::kOk);
  checks.equal("generation", device.read_register(0x20), 8);
}

std::vector<Fault> faults_of(Device& device, const std::vector<Request>& requests,
                             std::uint64_t* complete = nullptr) {
  std::size_t next = 0;
  std::vector<Fault> faults;
  device.play({.next = [&]() -> std::optional<Request> {
                 if (next == requests.size()) return {};
                 return requests[next++];
               },
               .answered =
                   [&](const Answer& answer) {
                     faults.push_back(answer.fault);
                     if (complete != nullptr) *complete += answer.complete;
                   }});
  return faults;
}

// The first error of requests, the register that reports it, and the count of complete lines.
void check_requests(Device& device, Checks& checks) {
  device.write_register(region(0, 0x40), 0);
  device.write_register(0x10, 0);
  const std::uint64_t before = device.read_register(region(0, 0x58));
  std::vector<Request> requests;
  const auto add = [&](bool is_write, std::uint64_t address) {
    requests.push_back({.is_write = is_write, .address = address});
  };
  add(false, 0x1000 + 3 * 256);     // not complete
  add(true, 0x1000 + 0 * 256 + 1);  // misaligned
  add(true, 0x10);                  // misaligned, in no region
  add(true, 0x1000 + 5 * 256);      // after the last window: in no region
  for (std::uint64_t w = 0; w < 3; ++w) add(true, 0x1000 + w * 256 + 64);
  add(true, 0x1000 + 64);  // duplicate
  std::uint64_t complete = 0;
  const std::vector<Fault> faults = faults_of(device, requests, &complete);
  const Fault expected[] = {Fault::kNotComplete, Fault::kMisaligned, Fault::kMisaligned,
                            Fault::kOutOfRange,  Fault::kOk,         Fault::kOk,
                            Fault::kOk,          Fault::kDuplicate};
  checks.equal("answers", faults.size(), std::size(expected));
  for (std::size_t i = 0; i < faults.size(); ++i) checks.equal("fault", faults[i], expected[i]);
  checks.equal("complete", complete, 1);
  checks.equal("completed", device.read_register(region(0, 0x50)), 1);
  checks.equal("first error", device.read_register(region(0, 0x40)), 4);
  checks.equal("its address", device.read_register(region(0, 0x48)), 0x1000 + 3 * 256);
  checks.equal("errors", device.read_register(region(0, 0x58)), before + 3);
  checks.equal("device error", device.read_register(0x10), 8);
  checks.equal("its address", device.read_register(0x18), 0x10);
  checks.equal("status", device.read_register(region(0, 0x38)), 5);
}

// The order of errors of requests, in a region of ternary digits.
void check_request_order(Device& device, Checks& checks) {
  RegionConfig config = with(&RegionConfig::mode, 3);
  config.base = 0x10000;
  config.length = 2;
  config.store = 8;
  checks.equal("enable", device.enable(2, config), Fault::kOk);
  Line bad = {};
  bad[0] = 243;
  const struct {
    const char* what;
    Request request;
    Fault fault;
  } cases[] = {
      {"misaligned, beyond the lines", {true, 0, 0x10000 + 2 * 64 + 1}, Fault::kMisaligned},
      {"beyond the lines, to read", {false, 0, 0x10000 + 2 * 64}, Fault::kOutOfRange},
      {"a result, beyond the lines", {true, 0, 0x10000 + 3 * 256 + 128}, Fault::kOutOfRange},
      {"a worker's line that was not written", {false, 0, 0x10000}, Fault::kWrongMode},
      {"a result of bad digits", {true, 0, 0x10000 + 3 * 256, bad}, Fault::kWrongMode},
      {"bad digits", {true, 0, 0x10000, bad}, Fault::kBadDigits},
      {"digits", {true, 0, 0x10000}, Fault::kOk},
      {"a second time, and bad digits", {true, 0, 0x10000, bad}, Fault::kDuplicate},
  };
  for (const auto& c : cases) {
    checks.equal(c.what, faults_of(device, {c.request}).front(), c.fault);
  }
}

}  // namespace

int test_registers(const Limits& limits) {
  Device device;
  Checks checks;
  check_device(device, checks, limits);
  check_rejected_regions(device, checks, limits);
  check_kinds(device, checks, limits);
  check_order(device, checks, limits);
  check_overlap(device, checks);
  check_requests(device, checks);
  check_request_order(device, checks);
  return checks.result();
}

}  // namespace nf::rtl
