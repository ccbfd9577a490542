#include "cxl/device_memory.h"

#include <gtest/gtest.h>

#include <set>

namespace nf::cxl {
namespace {

class Recorder : public Observer {
 public:
  void on_access(const DramAccess& access) override { accesses.push_back(access); }
  std::vector<DramAccess> accesses;
};

Timing without_refresh(unsigned channels) {
  Timing timing;
  timing.channels = channels;
  timing.dram.refresh_interval = Picoseconds{1} << 60;
  return timing;
}

// Ticks the memory until it is idle.
void drain(DeviceMemory& memory, std::vector<DeviceMemory::Done>& done, Picoseconds now = 0) {
  while (!memory.is_idle()) {
    memory.tick(now, done);
    now += 500;
  }
}

TEST(DeviceMemory, SpreadsNeighbouringLinesOverChannelsAndBankGroups) {
  Recorder recorder;
  DeviceMemory memory(without_refresh(4), &recorder);
  for (std::uint64_t line = 0; line < 32; ++line) memory.push(false, line, line, 0);
  std::vector<DeviceMemory::Done> done;
  drain(memory, done);
  ASSERT_EQ(recorder.accesses.size(), 32u);
  std::set<std::pair<std::uint32_t, std::uint32_t>> places;
  for (const DramAccess& access : recorder.accesses) {
    places.insert({access.channel, access.bank % 8});
  }
  EXPECT_EQ(places.size(), 32u);
}

TEST(DeviceMemory, ReadsAtTheBusRate) {
  Recorder recorder;
  const Timing timing = without_refresh(1);
  DeviceMemory memory(timing, &recorder);
  for (std::uint64_t line = 0; line < 32; ++line) memory.push(false, line, line, 0);
  std::vector<DeviceMemory::Done> done;
  drain(memory, done);
  for (std::size_t i = 1; i < recorder.accesses.size(); ++i) {
    const Picoseconds apart = recorder.accesses[i].column - recorder.accesses[i - 1].column;
    EXPECT_GE(apart, timing.dram.column_any);
    EXPECT_LE(apart, timing.dram.column_any + 1);  // times are rounded to picoseconds
  }
}

TEST(DeviceMemory, ServesReadsFirstUntilTheWriteQueueFills) {
  const auto kinds = [](std::uint64_t writes) {
    Recorder recorder;
    DeviceMemory memory(without_refresh(1), &recorder);
    for (std::uint64_t line = 0; line < writes; ++line) memory.push(true, line, line, 0);
    for (std::uint64_t line = 0; line < 4; ++line) memory.push(false, 100 + line, line, 0);
    std::vector<DeviceMemory::Done> done;
    drain(memory, done);
    std::string text;
    for (const DramAccess& access : recorder.accesses) text += access.is_write ? 'w' : 'r';
    return text;
  };
  EXPECT_EQ(kinds(3), "rrrrwww");
  EXPECT_EQ(kinds(47).substr(0, 5), "rrrrw");
  // From 48 queued writes on, writes go first, down to 16.
  EXPECT_EQ(kinds(48), std::string(32, 'w') + "rrrr" + std::string(16, 'w'));
}

TEST(DeviceMemory, ServesOtherBanksWhileOneIsBusy) {
  Recorder recorder;
  DeviceMemory memory(without_refresh(1), &recorder);
  memory.push(false, 0, 0, 0);
  memory.push(false, 33 * 32, 1, 0);  // the same bank, by its folded address
  memory.push(false, 1, 2, 0);
  std::vector<DeviceMemory::Done> done;
  drain(memory, done);
  ASSERT_EQ(recorder.accesses.size(), 3u);
  EXPECT_EQ(done[0].user, 0u);
  if (recorder.accesses[0].bank == recorder.accesses[2].bank) {
    EXPECT_EQ(done[1].user, 2u);
    EXPECT_EQ(done[2].user, 1u);
  } else {
    ADD_FAILURE() << "lines 0 and 1056 are in different banks; the test needs another pair";
  }
}

TEST(DeviceMemory, HasRoomUntilItsQueuesAreFull) {
  DeviceMemory memory(without_refresh(2), nullptr);
  EXPECT_TRUE(memory.has_room(false, 0, 64));
  EXPECT_FALSE(memory.has_room(false, 0, 65));
  for (std::uint64_t line = 0; line < 64; line += 2) memory.push(false, line, line, 0);
  EXPECT_FALSE(memory.has_room(false, 0, 1));
  EXPECT_TRUE(memory.has_room(false, 1, 1));
  EXPECT_TRUE(memory.has_room(true, 0, 128));
}

}  // namespace
}  // namespace nf::cxl
