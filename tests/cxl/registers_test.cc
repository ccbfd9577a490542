#include "cxl/registers.h"

#include <gtest/gtest.h>

#include "cxl/lines.h"
#include "cxl/reducer.h"

namespace nf::cxl {
namespace {

namespace reg = region_register;

RegionConfig sound() { return test::config_of(Mode::kGBinary, 8, 100); }

Fault enabling(const RegionConfig& config, const DeviceLimits& limits = {}) {
  Reducer reducer(limits);
  const Fault fault = reducer.enable(0, config);
  // A refused region stays off and its error register has the reason.
  EXPECT_EQ(reducer.read_register(reg::at(0, reg::kStatus)), fault == Fault::kOk ? 1u : 4u);
  EXPECT_EQ(reducer.read_register(reg::at(0, reg::kError)), static_cast<std::uint64_t>(fault));
  return fault;
}

TEST(Registers, SayWhatTheDeviceIs) {
  const Reducer reducer({.planes = 5, .most_workers = 31, .regions = 2, .records = 1000});
  EXPECT_EQ(reducer.read_register(device_register::kId), 0x4e4643584c000001u);
  EXPECT_EQ(reducer.read_register(device_register::kCapabilities),
            5u | 31u << 8 | 2u << 24 | 1000ull << 32);
}

TEST(Registers, RefuseUnknownModes) {
  RegionConfig config = sound();
  EXPECT_EQ(enabling(config), Fault::kOk);
  config.mode = 4;
  EXPECT_EQ(enabling(config), Fault::kWrongMode);
}

TEST(Registers, RefuseMoreWorkersThanTheCountersHold) {
  for (const Mode mode : kModes) {
    for (std::uint32_t planes = 1; planes <= 8; ++planes) {
      for (std::uint64_t workers = 0; workers <= 66; ++workers) {
        RegionConfig config = test::config_of(mode, workers, 10);
        const bool fits = workers >= 1 && workers <= 64 &&
                          most_digit(mode) * workers < std::uint64_t{1} << planes;
        EXPECT_EQ(enabling(config, {.planes = planes}), fits ? Fault::kOk : Fault::kTooManyWorkers)
            << to_string(mode) << ", " << planes << " planes, " << workers << " workers";
      }
    }
  }
}

TEST(Registers, RefuseRegionsThatDoNotFit) {
  RegionConfig config = sound();
  config.base += 32;
  EXPECT_EQ(enabling(config), Fault::kMisaligned);
  config = sound();
  config.length = 0;
  EXPECT_EQ(enabling(config), Fault::kOutOfRange);
  config = sound();
  config.stride -= 1;  // a window too small for its lines
  EXPECT_EQ(enabling(config), Fault::kOutOfRange);
  config = sound();
  config.stride = 48;
  EXPECT_EQ(enabling(config), Fault::kOutOfRange);
  config.stride = 64;
  EXPECT_EQ(enabling(config), Fault::kOutOfRange);
  config = sound();
  config.base = (1ull << 48) - (11ull << config.stride);  // 8 workers and 4 planes need 12 windows
  EXPECT_EQ(enabling(config), Fault::kOutOfRange);
  config.base -= 1ull << config.stride;
  EXPECT_EQ(enabling(config), Fault::kOk);
  config = sound();
  config.store = (1u << 20) - 99;
  EXPECT_EQ(enabling(config), Fault::kOutOfRange);
  config.store -= 1;
  EXPECT_EQ(enabling(config), Fault::kOk);
  config.store = ~std::uint64_t{0};
  EXPECT_EQ(enabling(config), Fault::kOutOfRange);
}

TEST(Registers, RefuseRegionsThatOverlap) {
  const RegionConfig first = sound();
  const std::uint64_t size = 12ull << first.stride;
  const auto enabling_second = [&](std::uint64_t base, std::uint64_t store) {
    Reducer reducer;
    EXPECT_EQ(reducer.enable(0, first), Fault::kOk);
    RegionConfig second = first;
    second.base = base;
    second.store = store;
    return reducer.enable(1, second);
  };
  EXPECT_EQ(enabling_second(first.base, 100), Fault::kOverlap);
  EXPECT_EQ(enabling_second(first.base + size - kLineBytes, 100), Fault::kOverlap);
  EXPECT_EQ(enabling_second(first.base - size + kLineBytes, 100), Fault::kOverlap);
  EXPECT_EQ(enabling_second(first.base + size, 99), Fault::kOverlap);
  EXPECT_EQ(enabling_second(first.base + size, 100), Fault::kOk);
  EXPECT_EQ(enabling_second(first.base - size, 100), Fault::kOk);
}

TEST(Registers, AreLockedWhileTheRegionIsEnabled) {
  Reducer reducer;
  ASSERT_EQ(reducer.enable(0, sound()), Fault::kOk);
  EXPECT_EQ(reducer.write_register(reg::at(0, reg::kWorkers), 9), Fault::kLocked);
  EXPECT_EQ(reducer.read_register(reg::at(0, reg::kWorkers)), 8u);
  EXPECT_EQ(reducer.enable(0, sound()), Fault::kLocked);
  ASSERT_EQ(reducer.control(0, Control::kDisable), Fault::kOk);
  EXPECT_EQ(reducer.write_register(reg::at(0, reg::kWorkers), 9), Fault::kOk);
  EXPECT_EQ(reducer.read_register(reg::at(0, reg::kWorkers)), 9u);
}

TEST(Registers, RefuseAccessesThatThereAreNot) {
  Reducer reducer;
  EXPECT_EQ(reducer.write_register(device_register::kId, 1), Fault::kLocked);
  EXPECT_EQ(reducer.write_register(0x28, 1), Fault::kOutOfRange);
  EXPECT_EQ(reducer.write_register(reg::at(0, reg::kCompleted), 1), Fault::kLocked);
  EXPECT_EQ(reducer.write_register(reg::at(0, 0x60), 1), Fault::kOutOfRange);
  EXPECT_EQ(reducer.enable(4, sound()), Fault::kOutOfRange);  // there are four
  EXPECT_EQ(reducer.read_register(reg::at(4, reg::kMode)), 0u);
  EXPECT_EQ(reducer.write_register(reg::at(0, reg::kControl), 3), Fault::kWrongMode);
  EXPECT_EQ(reducer.control(0, Control::kClear), Fault::kOutOfRange);  // nothing to clear
}

TEST(Registers, NeverGiveAGenerationTwice) {
  Reducer reducer({.last_generation = 3});
  ASSERT_EQ(reducer.enable(0, sound()), Fault::kOk);
  ASSERT_EQ(reducer.control(0, Control::kClear), Fault::kOk);
  ASSERT_EQ(reducer.control(0, Control::kClear), Fault::kOk);
  EXPECT_EQ(reducer.read_register(device_register::kGeneration), 3u);
  EXPECT_EQ(reducer.control(0, Control::kClear), Fault::kExhausted);
  ASSERT_EQ(reducer.control(0, Control::kDisable), Fault::kOk);
  EXPECT_EQ(reducer.enable(0, sound()), Fault::kExhausted);
  EXPECT_EQ(reducer.read_register(reg::at(0, reg::kStatus)) & 1u, 0u);
}

TEST(Registers, SayWhenAllLinesAreComplete) {
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
