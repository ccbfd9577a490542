#include "faults_test.h"

#include <algorithm>
#include <vector>

#include "checks.h"
#include "device.h"
#include "reference.h"

namespace nf::rtl {
namespace {

constexpr std::uint64_t kLineBits = 512;

RegionConfig config_of(Mode mode, std::uint64_t workers, std::uint64_t length) {
  return {.mode = static_cast<std::uint64_t>(mode),
          .workers = workers,
          .base = 0x4000,
          .length = length,
          .stride = 12};
}

std::uint64_t address_of(const RegionConfig& config, std::uint64_t window, std::uint64_t line) {
  return config.base + (window << config.stride) + 64 * line;
}

// The answer to one request.
Answer ask(Device& device, const Request& request) {
  bool is_asked = false;
  Answer result;
  const bool is_alive = device.play({.next = [&]() -> std::optional<Request> {
                                       if (is_asked) return {};
                                       is_asked = true;
                                       return request;
                                     },
                                     .answered = [&](const Answer& answer) { result = answer; }});
  if (!is_alive) std::printf("a request was not answered\n");
  return result;
}

Answer write(Device& device, const RegionConfig& config, std::uint64_t worker, std::uint64_t line,
             std::uint8_t byte) {
  Line data;
  data.fill(byte);
  return ask(device, {.is_write = true, .address = address_of(config, worker, line), .data = data});
}

Answer read(Device& device, const RegionConfig& config, std::uint64_t window, std::uint64_t line) {
  return ask(device, {.address = address_of(config, window, line)});
}

// Sets a counter of a record that is all zeros to its maximum.
void fill_counter(Device& device, std::uint64_t record, std::uint64_t lane, unsigned planes) {
  for (unsigned k = 0; k < planes; ++k) device.flip(record, kLineBits * k + lane);
}

void check_overflow(Device& device, Checks& checks) {
  const unsigned planes = device.limits().planes;
  const RegionConfig binary = config_of(Mode::kGBinary, 2, 4);
  device.set_assertions(false);  // one of them states that no counter overflows
  checks.equal("enable", device.enable(0, binary), Fault::kOk);
  const std::uint64_t before = device.read_register(region(0, 0x58));
  const std::uint64_t lanes[] = {0, 7, 255, 511};
  for (std::uint64_t line = 0; line < 4; ++line) {
    checks.equal("zeros", write(device, binary, 0, line, 0).fault, Fault::kOk);
    fill_counter(device, line, lanes[line], planes);
    const Answer last = write(device, binary, 1, line, 0xff);
    checks.equal("overflow of a lane", last.fault, Fault::kOverflow);
    checks.equal("does not complete", last.complete, false);
  }
  checks.equal("error", device.read_register(region(0, 0x40)), 11);
  checks.equal("its address", device.read_register(region(0, 0x48)), address_of(binary, 1, 0));
  checks.equal("errors", device.read_register(region(0, 0x58)), before + 4);
  checks.equal("completed", device.read_register(region(0, 0x50)), 0);
  checks.equal("clear", device.control(0, 2), Fault::kOk);
  checks.equal("a write after it", write(device, binary, 1, 0, 0xff).fault, Fault::kOk);
  device.control(0, 0);

  const RegionConfig ternary = config_of(Mode::kGTernary, 2, 1);
  device.enable(0, ternary);
  write(device, ternary, 0, 0, 0);
  fill_counter(device, 0, 319, planes);
  device.flip(0, 319);  // the maximum less one, so that only a digit of 2 overflows
  checks.equal("overflow by 2", write(device, ternary, 1, 0, 242).fault, Fault::kOverflow);
  device.control(0, 0);

  // Lines of other modes pass through the adder, but are not counted.
  for (const Mode mode : {Mode::kIdentity, Mode::kFp32}) {
    const RegionConfig bytes = config_of(mode, 2, 1);
    device.enable(0, bytes);
    write(device, bytes, 0, 0, 0);
    for (std::uint64_t lane = 0; lane < kLineBits; ++lane) fill_counter(device, 0, lane, planes);
    checks.equal("bytes do not overflow", write(device, bytes, 1, 0, 0xff).fault, Fault::kOk);
    device.control(0, 0);
  }
  device.set_assertions(true);
}

// A request that is rejected for another reason never reports an overflow, although its digits
// would.
void check_full_counters(Device& device, Checks& checks) {
  const Limits limits = device.limits();
  const std::uint64_t max_sum = (std::uint64_t{1} << limits.planes) - 1;
  const RegionConfig config =
      config_of(Mode::kGBinary, std::min<std::uint64_t>(max_sum, limits.workers), 1);
  checks.equal("enable", device.enable(0, config), Fault::kOk);
  for (std::uint64_t worker = 0; worker < config.workers; ++worker) {
    checks.equal("ones", write(device, config, worker, 0, 0xff).fault, Fault::kOk);
  }
  checks.equal("once more", write(device, config, 0, 0, 0xff).fault, Fault::kDuplicate);
  checks.equal("a result", write(device, config, config.workers, 0, 0xff).fault, Fault::kWrongMode);
  checks.equal("plane 0", read(device, config, config.workers, 0).data[0],
               config.workers % 2 == 1 ? 0xff : 0);
  device.control(0, 0);
}

// A record belongs to a generation only if all of its bits agree.
void check_generation_bits(Device& device, Checks& checks) {
  const Limits limits = device.limits();
  const std::uint64_t generation_at = kLineBits * limits.planes + limits.workers;
  const RegionConfig config = config_of(Mode::kGBinary, 2, 1);
  checks.equal("enable", device.enable(0, config), Fault::kOk);
  for (unsigned bit = 0; bit < 32; ++bit) {
    // Assign a generation in which this bit and the lower ones change.
    device.set_generation((1u << bit) - 1);
    checks.equal("clear", device.control(0, 2), Fault::kOk);
    checks.equal("generation", device.read_register(0x20), std::uint64_t{1} << bit);
    write(device, config, 0, 0, 0xff);
    checks.equal("second write", write(device, config, 0, 0, 0xff).fault, Fault::kDuplicate);
    device.flip(0, generation_at + bit);
    checks.equal("of another generation", write(device, config, 0, 0, 0x0f).fault, Fault::kOk);
    checks.equal("completes", write(device, config, 1, 0, 0xf0).complete, true);
    checks.equal("plane 0", read(device, config, 2, 0).data[63], 0xff);
    checks.equal("plane 1", read(device, config, 3, 0).data[63], 0);
    checks.equal("clear", device.control(0, 2), Fault::kOk);
    checks.equal("old result", read(device, config, 2, 0).fault, Fault::kNotComplete);
  }
  device.control(0, 0);
}

// Two regions whose addresses differ in one bit do not share lines, records or sums.
void check_distant_regions(Device& device, Checks& checks) {
  for (unsigned bit = 15; bit < 48; ++bit) {
    RegionConfig near = config_of(Mode::kIdentity, 2, 2), far = config_of(Mode::kFp32, 2, 2);
    far.base |= std::uint64_t{1} << bit;
    far.store = 2;
    checks.equal("beside it", ask(device, {.address = far.base}).fault, Fault::kOutOfRange);
    checks.equal("enable", device.enable(0, near), Fault::kOk);
    checks.equal("one bit away", ask(device, {.address = far.base}).fault, Fault::kOutOfRange);
    checks.equal("enable", device.enable(1, far), Fault::kOk);
    for (std::uint64_t line = 0; line < 2; ++line) {
      write(device, far, 0, line, 0x3f);
      write(device, near, 0, line, 0x11);
      write(device, near, 1, line, 0x22);
      checks.equal("sum", write(device, far, 1, line, 0).complete, true);
      checks.equal("line 0", read(device, near, 0, line).data[0], 0x11);
      checks.equal("line 1", read(device, near, 1, line).data[0], 0x22);
      checks.equal("the sum", read(device, far, 2, line).data[3], 0x3f);
    }
    device.control(0, 0);
    device.control(1, 0);
  }
}

// A line far above those in use is not mistaken for one of them.
void check_wide_window(Device& device, Checks& checks) {
  const RegionConfig config{.mode = 0, .workers = 1, .base = 0, .length = 2, .stride = 47};
  checks.equal("enable", device.enable(0, config), Fault::kOk);
  write(device, config, 0, 0, 1);
  for (unsigned bit = 7; bit < 47; ++bit) {
    device.write_register(region(0, 0x40), 0);
    const std::uint64_t address = std::uint64_t{1} << bit;
    checks.equal("far above", ask(device, {.address = address}).fault, Fault::kOutOfRange);
    checks.equal("in this region", device.read_register(region(0, 0x48)), address);
  }
  checks.equal("line 0", read(device, config, 0, 0).data[0], 1);
  device.control(0, 0);
}

// After a reset the store is wiped, one record per cycle; an access waits for it, a request is
// answered.
void check_reset(Device& device, Checks& checks) {
  device.reset();
  const std::uint64_t records = device.limits().records;
  RegionConfig config = config_of(Mode::kIdentity, 2, 1);
  const std::uint64_t stores[] = {0, 1, records / 2, records - 2, records - 1};
  for (int round = 0; round < 2; ++round) {
    for (const std::uint64_t store : stores) {
      config.store = store;
      device.reset();
      checks.equal("enable", device.enable(0, config), Fault::kOk);
      checks.equal("the first generation", device.read_register(0x20), 1);
      checks.equal("first write", write(device, config, 0, 0, 1).fault, Fault::kOk);
      checks.equal("not complete", read(device, config, 1, 0).fault, Fault::kNotComplete);
      checks.equal("last write", write(device, config, 1, 0, 1).complete, true);
    }
  }
  device.start_reset();
  const std::uint64_t begin = device.cycles();
  bool is_rejected = false;
  device.play({.next = [is_asked = false]() mutable -> std::optional<Request> {
                 if (is_asked) return {};
                 is_asked = true;
                 return Request{.address = 0x4000};
               },
               .answered =
                   [&](const Answer& answer) {
                     is_rejected =
                         answer.fault == Fault::kOutOfRange && device.cycles() - begin < records;
                   }});
  checks.equal("rejected while the store is wiped", is_rejected, true);
  checks.equal("an access waits", device.cycles() - begin >= records - 1, true);
  checks.equal("no generation", device.read_register(0x20), 0);
  checks.equal("device error", device.read_register(0x10), 6);
}

// A reset while requests and an access wait for their receivers leaves no state in the registers.
void check_registers_after_reset(Device& device, Checks& checks) {
  const Limits limits = device.limits();
  const RegionConfig config = config_of(Mode::kGBinary, 1, 2);
  for (int round = 0; round < 2; ++round) {
    checks.equal("enable", device.enable(0, config), Fault::kOk);
    write(device, config, 0, 0, 1);
    checks.equal("of no region", ask(device, {.address = 0x40}).fault, Fault::kOutOfRange);
    checks.equal("twice", write(device, config, 0, 0, 1).fault, Fault::kDuplicate);
    checks.equal("device error", device.read_register(0x18), 0x40);
    checks.equal("error", device.read_register(region(0, 0x48)), config.base);
    checks.equal("completed", device.read_register(region(0, 0x50)), 1);
    checks.equal("the last access fails", device.write_register(0x28, 1), Fault::kOutOfRange);
    // Requests are stuck in round 0, the answer of an access in round 1.
    device.play({.next = [&] { return std::optional<Request>({.cycle = round == 0 ? 0u : 999u}); },
                 .answered = [](const Answer&) {},
                 .access =
                     [&] {
                       return round == 0 ? std::nullopt
                                         : std::optional<RegisterAccess>({.offset = 0});
                     },
                 .access_taken = [](const RegisterAccess&) {},
                 .accessed = [](const RegisterAccess&, Fault, std::uint64_t) {},
                 .ready = "0",
                 .reset_at = 30});
    for (std::uint64_t at = 0x10; at <= 0x20; at += 8) {
      checks.equal("a device register after a reset", device.read_register(at), 0);
    }
    for (unsigned r = 0; r < limits.regions; ++r) {
      for (std::uint64_t at = 0; at < 0x60; at += 8) {
        checks.equal("a register after a reset", device.read_register(region(r, at)), 0);
      }
    }
  }
}

// A reset ends a fold; an assertion of rtl/formal states that a fold belongs to the request in
// stage 5.
void check_reset_of_fold(Device& device, Checks& checks) {
  const RegionConfig config = config_of(Mode::kFp32, device.limits().workers, 1);
  checks.equal("enable", device.enable(0, config), Fault::kOk);
  for (std::uint64_t worker = 1; worker < config.workers; ++worker) {
    checks.equal("a slot", write(device, config, worker, 0, 1).fault, Fault::kOk);
  }
  const Request last{.is_write = true, .address = address_of(config, 0, 0)};
  device.play({.next = [&] { return std::optional(last); },
               .answered = [](const Answer&) {},
               .reset_at = 8});
  checks.equal("no region", device.read_register(region(0, 0x38)), 0);
}

// A wiped record belongs to no generation, not even to the last, and wiping takes one cycle each.
void check_wiped_records(Device& device, Checks& checks) {
  const RegionConfig config = config_of(Mode::kGBinary, 2, 2);
  for (const std::uint64_t wait : {0, 7, 20}) {  // also if a reset interrupts the wiping
    device.start_reset();
    device.play({.next = [is_asked = false, wait]() mutable -> std::optional<Request> {
                   if (is_asked) return {};
                   is_asked = true;
                   return Request{.cycle = wait, .address = 0x4000};
                 },
                 .answered = [](const Answer&) {},
                 .reset_at = wait});
    device.start_reset();
    const std::uint64_t begin = device.cycles();
    device.read_register(0);
    checks.equal("cycles of the wiping", device.cycles() - begin, device.limits().records + 3);
  }
  device.set_generation(0xfffffffe);
  checks.equal("enable", device.enable(0, config), Fault::kOk);
  checks.equal("the last generation", device.read_register(0x20), 0xffffffff);
  for (std::uint64_t line = 0; line < 2; ++line) {
    checks.equal("first write", write(device, config, 0, line, 0).fault, Fault::kOk);
    checks.equal("last write", write(device, config, 1, line, 0).complete, true);
    checks.equal("plane 0", read(device, config, 2, line).data[5], 0);
    checks.equal("plane 1", read(device, config, 3, line).data[5], 0);
  }
  device.control(0, 0);
  device.reset();
}

}  // namespace

int test_faults() {
  Device device;
  Checks checks;
  check_overflow(device, checks);
  check_full_counters(device, checks);
  check_generation_bits(device, checks);
  device.reset();
  check_distant_regions(device, checks);
  check_wide_window(device, checks);
  check_reset(device, checks);
  device.reset();
  check_registers_after_reset(device, checks);
  check_reset_of_fold(device, checks);
  check_wiped_records(device, checks);
  return checks.result();
}

}  // namespace nf::rtl
