// The timing of one DDR5 sub-channel: when a line may be read or written. Rows are closed after
// every line, since lines of a record are in different bank groups and no row is used twice. The
// command bus is not modelled: a line takes two commands of two clocks out of eight.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cxl/observer.h"
#include "cxl/timing.h"

namespace nf::cxl {

class DramChannel {
 public:
  // Borrows `observer`, which may be null.
  DramChannel(std::uint32_t number, const DramTiming& timing, Observer* observer);

  std::uint32_t banks() const { return static_cast<std::uint32_t>(bank_ready_.size()); }

  // The earliest access to a bank from `not_before` on.
  DramAccess probe(bool is_write, std::uint32_t bank, Picoseconds not_before) const;
  // Commits an access returned by probe().
  void issue(const DramAccess& access);
  // The earliest activate, and the earliest column read or write, of any bank.
  Picoseconds next_activate() const;
  Picoseconds next_column(bool is_write) const;
  Picoseconds bank_ready(std::uint32_t bank) const { return bank_ready_[bank]; }

  // If a refresh is due, refreshes one closed bank of every group and returns true. If no bank is
  // closed, the refresh waits for one, for at most one interval. The standard allows to postpone a
  // refresh; each is postponed by a random part of an interval, since refreshes in lockstep with
  // the traffic would hide or double their cost.
  bool refresh_if_due(Picoseconds now);
  Picoseconds next_refresh() const { return next_refresh_; }

 private:
  static constexpr Picoseconds kLongAgo = -1'000'000'000;
  static constexpr std::size_t kMaxGroups = 8;
  using ByGroup = std::array<Picoseconds, kMaxGroups>;

  Picoseconds interval() const { return timing_.refresh_interval / timing_.banks_of_group; }
  Picoseconds due(std::uint64_t refresh) const;
  std::uint32_t group_of(std::uint32_t bank) const { return bank % timing_.bank_groups; }

  const std::uint32_t number_;
  const DramTiming timing_;
  Observer* const observer_;

  std::vector<Picoseconds> bank_ready_;   // earliest next activate
  std::array<Picoseconds, 4> activates_;  // the last four, the oldest at activate_at_
  std::size_t activate_at_ = 0;
  ByGroup group_activate_;
  Picoseconds read_ = kLongAgo;  // the last column read and the last column write
  Picoseconds write_ = kLongAgo;
  ByGroup group_read_;
  ByGroup group_write_;
  std::uint64_t refreshes_ = 0;
  std::uint32_t refreshed_ = 0;  // bit b: bank b of every group was refreshed in this round
  Picoseconds next_refresh_;
};

}  // namespace nf::cxl
