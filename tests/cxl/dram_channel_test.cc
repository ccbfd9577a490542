// Every timing constraint is tight: an access is possible at the time that the standard allows, and
// not before.
#include "cxl/dram_channel.h"

#include <gtest/gtest.h>

namespace nf::cxl {
namespace {

DramTiming without_refresh() {
  DramTiming timing;
  timing.refresh_interval = Picoseconds{1} << 60;
  return timing;
}

class DramChannelTest : public testing::Test {
 protected:
  DramAccess issue(bool is_write, std::uint32_t bank, Picoseconds at = 0) {
    const DramAccess access = channel_.probe(is_write, bank, at);
    channel_.issue(access);
    return access;
  }

  const DramTiming t_ = without_refresh();
  DramChannel channel_{0, t_, nullptr};
};

TEST_F(DramChannelTest, ReadsALineAfterActivateAndColumn) {
  const DramAccess read = channel_.probe(false, 0, 1000);
  EXPECT_EQ(read.activate, 1000);
  EXPECT_EQ(read.column, 1000 + 16'250);
  EXPECT_EQ(read.data_end, 1000 + 16'250 + 16'667 + 3'333);
  EXPECT_EQ(channel_.probe(false, 0, 1000).activate, 1000);  // a probe has no effect
}

TEST_F(DramChannelTest, WaitsForABusyBank) {
  const DramAccess first = issue(false, 0);
  EXPECT_EQ(channel_.probe(false, 0, 0).activate, first.activate + t_.read_cycle());
  EXPECT_EQ(t_.read_cycle(), 32'000 + 16'250);
  DramChannel other(0, t_, nullptr);
  const DramAccess write = other.probe(true, 0, 0);
  other.issue(write);
  EXPECT_EQ(other.probe(false, 0, 0).activate, write.column + 15'833 + 3'333 + 30'000 + 16'250);
}

TEST_F(DramChannelTest, SpacesActivates) {
  issue(false, 0);
  EXPECT_EQ(channel_.probe(false, 8, 0).activate, 5'000);  // the same bank group
  EXPECT_EQ(channel_.probe(false, 1, 0).activate, 3'333);  // another bank group
  issue(false, 1);
  issue(false, 2);
  issue(false, 3);
  EXPECT_EQ(channel_.probe(false, 4, 0).activate, 13'333);  // at most four in tFAW
}

TEST_F(DramChannelTest, SpacesColumnsOfABankGroup) {
  const DramAccess read = issue(false, 0);
  EXPECT_EQ(channel_.probe(false, 8, 0).column, read.column + 5'000);
  EXPECT_EQ(channel_.probe(false, 1, 0).column, read.column + 3'333);
  DramChannel other(0, t_, nullptr);
  const DramAccess write = other.probe(true, 0, 0);
  other.issue(write);
  EXPECT_EQ(other.probe(true, 8, 0).column, write.column + 10'000);
  EXPECT_EQ(other.probe(true, 1, 0).column, write.column + 3'333);
}

TEST_F(DramChannelTest, TurnsTheBusAround) {
  const DramAccess read = issue(false, 0);
  EXPECT_EQ(channel_.probe(true, 1, 0).column, read.column + memory_clocks(14));
  DramChannel other(0, t_, nullptr);
  const DramAccess write = other.probe(true, 0, 0);
  other.issue(write);
  EXPECT_EQ(other.probe(false, 1, 0).column, write.data_end + 2'500);
  EXPECT_EQ(other.probe(false, 8, 0).column, write.data_end + 10'000);
}

TEST(DramRefresh, RefreshesEveryBankOfAGroupInTurn) {
  struct Count : Observer {
    void on_refresh(std::uint32_t, Picoseconds begin) override { begins.push_back(begin); }
    std::vector<Picoseconds> begins;
  } count;
  const DramTiming timing;
  DramChannel channel(0, timing, &count);
  Picoseconds now = 0;
  for (; count.begins.size() < 40; now += 500) channel.refresh_if_due(now);
  // Forty refreshes are ten rounds of four banks: ten intervals, plus or minus one.
  EXPECT_GE(now, 9 * timing.refresh_interval);
  EXPECT_LE(now, 11 * timing.refresh_interval);
  // Only the banks in refresh are busy until its end.
  const Picoseconds end = count.begins.back() + timing.refresh;
  int waiting = 0;
  for (std::uint32_t bank = 0; bank < channel.banks(); ++bank) {
    waiting += channel.bank_ready(bank) == end ? 1 : 0;
  }
  EXPECT_EQ(waiting, 8);
}

TEST(DramRefresh, WaitsForAClosedBank) {
  DramTiming timing;
  timing.banks_of_group = 1;
  DramChannel channel(0, timing, nullptr);
  const Picoseconds due = channel.next_refresh();
  channel.issue(channel.probe(true, 0, due - 1000));
  const Picoseconds closed = channel.bank_ready(0);
  EXPECT_FALSE(channel.refresh_if_due(due));
  EXPECT_FALSE(channel.refresh_if_due(closed - 1));
  EXPECT_TRUE(channel.refresh_if_due(closed));
  EXPECT_EQ(channel.bank_ready(0), closed + timing.refresh);
}

}  // namespace
}  // namespace nf::cxl
