#include "cxl/dram_channel.h"

#include <algorithm>

#include "base/random.h"

namespace nf::cxl {

DramChannel::DramChannel(std::uint32_t number, const DramTiming& timing, Observer* observer)
    : number_(number),
      timing_(timing),
      observer_(observer),
      bank_ready_(timing.bank_groups * timing.banks_of_group, kLongAgo),
      next_refresh_(due(0)) {
  activates_.fill(kLongAgo);
  group_activate_.fill(kLongAgo);
  group_read_.fill(kLongAgo);
  group_write_.fill(kLongAgo);
}

Picoseconds DramChannel::next_activate() const {
  const Picoseconds last = activates_[(activate_at_ + 3) % 4];
  return std::max(last + timing_.activate_any, activates_[activate_at_] + timing_.four_activates);
}

Picoseconds DramChannel::next_column(bool is_write) const {
  const DramTiming& t = timing_;
  if (is_write) return std::max(write_ + t.column_any, read_ + t.read_to_write);
  return std::max(read_ + t.column_any, write_ + t.write_latency + t.burst + t.write_to_read_any);
}

DramAccess DramChannel::probe(bool is_write, std::uint32_t bank, Picoseconds not_before) const {
  const DramTiming& t = timing_;
  const std::uint32_t group = group_of(bank);
  DramAccess access{.is_write = is_write, .channel = number_, .bank = bank};
  access.activate = std::max(
      {not_before, next_activate(), bank_ready_[bank], group_activate_[group] + t.activate_group});
  const Picoseconds opened = access.activate + t.activate_to_column;
  if (is_write) {
    access.column = std::max({opened, next_column(true), group_write_[group] + t.write_group});
    access.data_end = access.column + t.write_latency + t.burst;
  } else {
    access.column =
        std::max({opened, next_column(false), group_read_[group] + t.read_group,
                  group_write_[group] + t.write_latency + t.burst + t.write_to_read_group});
    access.data_end = access.column + t.read_latency + t.burst;
  }
  return access;
}

void DramChannel::issue(const DramAccess& access) {
  const DramTiming& t = timing_;
  const std::uint32_t group = group_of(access.bank);
  activates_[activate_at_] = access.activate;
  activate_at_ = (activate_at_ + 1) % 4;
  group_activate_[group] = access.activate;
  if (access.is_write) {
    write_ = group_write_[group] = access.column;
    bank_ready_[access.bank] = access.column + t.write_to_activate();
  } else {
    read_ = group_read_[group] = access.column;
    bank_ready_[access.bank] =
        std::max(access.column + t.read_to_precharge, access.activate + t.row_active) + t.precharge;
  }
  if (observer_ != nullptr) observer_->on_access(access);
}

Picoseconds DramChannel::due(std::uint64_t refresh) const {
  const double jitter =
      static_cast<double>(mix64((refresh + 1) * kGolden64 + 256 * timing_.seed + number_) >> 11) *
      0x1p-53;
  return static_cast<Picoseconds>((static_cast<double>(refresh) + jitter) *
                                  static_cast<double>(interval()));
}

bool DramChannel::refresh_if_due(Picoseconds now) {
  if (now < next_refresh_) return false;
  const auto closed = [&](std::uint32_t number) {
    const auto first = bank_ready_.begin() + number * timing_.bank_groups;
    return *std::max_element(first, first + timing_.bank_groups);
  };
  const bool is_urgent = now >= next_refresh_ + interval();
  std::uint32_t chosen = timing_.banks_of_group;
  for (std::uint32_t number = 0; number < timing_.banks_of_group; ++number) {
    const bool is_due = (refreshed_ >> number & 1) == 0;
    if (is_due && (is_urgent || closed(number) <= now)) chosen = number;
  }
  if (chosen == timing_.banks_of_group) return false;
  const Picoseconds begin = std::max(next_refresh_, closed(chosen));
  std::fill_n(bank_ready_.begin() + chosen * timing_.bank_groups, timing_.bank_groups,
              begin + timing_.refresh);
  refreshed_ |= 1u << chosen;
  if (++refreshes_ % timing_.banks_of_group == 0) refreshed_ = 0;
  next_refresh_ = due(refreshes_);
  if (observer_ != nullptr) observer_->on_refresh(number_, begin);
  return true;
}

}  // namespace nf::cxl
