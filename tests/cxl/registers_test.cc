#include "cxl/registers.h"

#include <gtest/gtest.h>

#include "cxl/lines.h"
#include "cxl/reducer.h"

namespace nf::cxl {
namespace {

namespace reg = region_register;

RegionConfig valid_config() { return test::config_of(Mode::kGBinary, 8, 100); }

Fault enable_fault(const RegionConfig& config, const DeviceLimits& limits = {}) {
  Reducer reducer(limits);
  const Fault fault = reducer.enable(0, config);
  // A rejected region stays disabled and its error register has the reason.
  EXPECT_EQ(reducer.read_register(reg::at(0, reg::kStatus)), fault == Fault::kOk ? 1u : 4u);
  EXPECT_EQ(reducer.read_register(reg::at(0, reg::kError)), static_cast<std::uint64_t>(fault));
  return fault;
}

TEST(Registers, DescribeTheDevice) {
  const Reducer reducer({.planes = 5, .max_workers = 31, .regions = 2, .records = 1000});
  EXPECT_EQ(reducer.read_register(device_register::kId), 0x4e4643584c000001u);
  EXPECT_EQ(reducer.read_register(device_register::kCapabilities),
            5u | 31u << 8 | 2u << 24 | 1000ull << 32);
}

TEST(Registers, RejectUnknownModes) {
  RegionConfig config = valid_config();
  EXPECT_EQ(enable_fault(config), Fault::kOk);
  config.mode = 4;
  EXPECT_EQ(enable_fault(config), Fault::kWrongMode);
}

TEST(Registers, RejectMoreWorkersThanTheCountersHold) {
  for (const Mode mode : kModes) {
    for (std::uint32_t planes = 1; planes <= 8; ++planes) {
      for (std::uint64_t workers = 0; workers <= 66; ++workers) {
        RegionConfig config = test::config_of(mode, workers, 10);
        const bool fits =
            workers >= 1 && workers <= 64 && max_digit(mode) * workers < std::uint64_t{1} << planes;
        EXPECT_EQ(enable_fault(config, {.planes = planes}),
                  fits ? Fault::kOk : Fault::kTooManyWorkers)
            << to_string(mode) << ", " << planes << " planes, " << workers << " workers";
      }
    }
  }
}

TEST(Registers, RejectRegionsThatDoNotFit) {
  RegionConfig config = valid_config();
  config.base += 32;
  EXPECT_EQ(enable_fault(config), Fault::kMisaligned);
  config = valid_config();
  config.length = 0;
  EXPECT_EQ(enable_fault(config), Fault::kOutOfRange);
  config = valid_config();
  config.stride -= 1;  // a window too small for its lines
  EXPECT_EQ(enable_fault(config), Fault::kOutOfRange);
  config = valid_config();
  config.stride = 48;
  EXPECT_EQ(enable_fault(config), Fault::kOutOfRange);
  config.stride = 64;
  EXPECT_EQ(enable_fault(config), Fault::kOutOfRange);
  config = valid_config();
  config.base = (1ull << 48) - (11ull << config.stride);  // 8 workers and 4 planes need 12 windows
  EXPECT_EQ(enable_fault(config), Fault::kOutOfRange);
  config.base -= 1ull << config.stride;
  EXPECT_EQ(enable_fault(config), Fault::kOk);
  config = valid_config();
  config.store = (1u << 20) - 99;
  EXPECT_EQ(enable_fault(config), Fault::kOutOfRange);
  config.store -= 1;
  EXPECT_EQ(enable_fault(config), Fault::kOk);
  config.store = ~std::uint64_t{0};
  EXPECT_EQ(enable_fault(config), Fault::kOutOfRange);
}

TEST(Registers, RejectRegionsThatOverlap) {
  const RegionConfig first = valid_config();
  const std::uint64_t size = 12ull << first.stride;
  const auto enable_second = [&](std::uint64_t base, std::uint64_t store) {
    Reducer reducer;
    EXPECT_EQ(reducer.enable(0, first), Fault::kOk);
    RegionConfig second = first;
    second.base = base;
    second.store = store;
    return reducer.enable(1, second);
  };
  EXPECT_EQ(enable_second(first.base, 100), Fault::kOverlap);
  EXPECT_EQ(enable_second(first.base + size - kLineBytes, 100), Fault::kOverlap);
  EXPECT_EQ(enable_second(first.base - size + kLineBytes, 100), Fault::kOverlap);
  EXPECT_EQ(enable_second(first.base + size, 99), Fault::kOverlap);
  EXPECT_EQ(enable_second(first.base + size, 100), Fault::kOk);
  EXPECT_EQ(enable_second(first.base - size, 100), Fault::kOk);
}

TEST(Registers, AreLockedWhileTheRegionIsEnabled) {
  Reducer reducer;
  ASSERT_EQ(reducer.enable(0, valid_config()), Fault::kOk);
  EXPECT_EQ(reducer.write_register(reg::at(0, reg::kWorkers), 9), Fault::kLocked);
  EXPECT_EQ(reducer.read_register(reg::at(0, reg::kWorkers)), 8u);
  EXPECT_EQ(reducer.enable(0, valid_config()), Fault::kLocked);
  ASSERT_EQ(reducer.control(0, Control::kDisable), Fault::kOk);
  EXPECT_EQ(reducer.write_register(reg::at(0, reg::kWorkers), 9), Fault::kOk);
  EXPECT_EQ(reducer.read_register(reg::at(0, reg::kWorkers)), 9u);
}

TEST(Registers, RejectUnknownAccesses) {
  Reducer reducer;
  EXPECT_EQ(reducer.write_register(device_register::kId, 1), Fault::kLocked);
  EXPECT_EQ(reducer.write_register(0x28, 1), Fault::kOutOfRange);
  EXPECT_EQ(reducer.write_register(reg::at(0, reg::kCompleted), 1), Fault::kLocked);
  EXPECT_EQ(reducer.write_register(reg::at(0, 0x60), 1), Fault::kOutOfRange);
  EXPECT_EQ(reducer.enable(4, valid_config()), Fault::kOutOfRange);  // the device has four
  EXPECT_EQ(reducer.read_register(reg::at(4, reg::kMode)), 0u);
  EXPECT_EQ(reducer.write_register(reg::at(0, reg::kControl), 3), Fault::kWrongMode);
  EXPECT_EQ(reducer.control(0, Control::kClear), Fault::kOutOfRange);  // nothing to clear
}

TEST(Registers, NeverReuseAGeneration) {
  Reducer reducer({.last_generation = 3});
  ASSERT_EQ(reducer.enable(0, valid_config()), Fault::kOk);
  ASSERT_EQ(reducer.control(0, Control::kClear), Fault::kOk);
  ASSERT_EQ(reducer.control(0, Control::kClear), Fault::kOk);
  EXPECT_EQ(reducer.read_register(device_register::kGeneration), 3u);
  EXPECT_EQ(reducer.control(0, Control::kClear), Fault::kExhausted);
  ASSERT_EQ(reducer.control(0, Control::kDisable), Fault::kOk);
  EXPECT_EQ(reducer.enable(0, valid_config()), Fault::kExhausted);
  EXPECT_EQ(reducer.read_register(reg::at(0, reg::kStatus)) & 1u, 0u);
}

TEST(Registers, ReportWhenAllLinesAreComplete) {
  Reducer reducer;
  const RegionConfig config = test::config_of(Mode::kGBinary, 2, 2);
  ASSERT_EQ(reducer.enable(0, config), Fault::kOk);
  for (std::uint64_t line = 0; line < 2; ++line) {
    for (std::uint64_t worker = 0; worker < 2; ++worker) {
      EXPECT_EQ(reducer.read_register(reg::at(0, reg::kStatus)), 1u);
      EXPECT_EQ(reducer.read_register(reg::at(0, reg::kCompleted)), line);
      reducer.handle(test::write_of(config, worker, line, {}));
    }
  }
  EXPECT_EQ(reducer.read_register(reg::at(0, reg::kStatus)), 3u);
}

}  // namespace
}  // namespace nf::cxl
