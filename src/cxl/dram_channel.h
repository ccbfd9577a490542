// One sub-channel of DDR5: which line may be read or written when. Rows are closed after every line
// (lines of a record lie in different bank groups, so that no row is wanted twice). The command bus
// is not modelled: a line takes two commands of two clocks out of eight.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cxl/observer.h"
#include "cxl/timing.h"

namespace nf::cxl {

class DramChannel {
 public:
  // Borrows both; there may be no observer.
  DramChannel(std::uint32_t number, const DramTiming& timing, Observer* observer);

  std::uint32_t banks() const { return static_cast<std::uint32_t>(bank_ready_.size()); }

  // The earliest access to a bank that `not_before` allows. Changes nothing.
  DramAccess probe(bool is_write, std::uint32_t bank, Picoseconds not_before) const;
  // Commits an access that probe() gave.
  void issue(const DramAccess& access);
  // No activate, and no column of the kind, of any bank comes before this.
  Picoseconds next_activate() const;
  Picoseconds next_column(bool is_write) const;
  Picoseconds bank_ready(std::uint32_t bank) const { return bank_ready_[bank]; }

  // If it is time to, refreshes one bank of every group, one that is closed; where none is, waits
  // for one, up to an interval. The times are those of the standard, each put off by a random part
  // of an interval, which it allows: refreshes in step with the traffic would hide or double what
  // they cost. Says whether it did.
  bool refresh_if_due(Picoseconds now);
  Picoseconds next_refresh() const { return next_refresh_; }

 private:
  static constexpr Picoseconds kLongAgo = -1'000'000'000;
  static constexpr std::size_t kMostGroups = 8;
  using ByGroup = std::array<Picoseconds, kMostGroups>;

  Picoseconds interval() const { return timing_.refresh_interval / timing_.banks_of_group; }
  Picoseconds due(std::uint64_t refresh) const;
  std::uint32_t group_of(std::uint32_t bank) const { return bank % timing_.bank_groups; }

  const std::uint32_t number_;
  const DramTiming timing_;
  Observer* const observer_;

  std::vector<Picoseconds> bank_ready_;   // to be activated
  std::array<Picoseconds, 4> activates_;  // the last four, the oldest at activate_at_
  std::size_t activate_at_ = 0;
  ByGroup group_activate_;
  Picoseconds read_ = kLongAgo;  // the last column read, and write
  Picoseconds write_ = kLongAgo;
  ByGroup group_read_;
  ByGroup group_write_;
  std::uint64_t refreshes_ = 0;
  std::uint32_t refreshed_ = 0;  // bit b: bank b of every group, in this round
  Picoseconds next_refresh_;
};

}  // namespace nf::cxl
