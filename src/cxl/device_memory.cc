#include "cxl/device_memory.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace nf::cxl {
namespace {

// Neighbouring lines are in different bank groups. Higher bits are folded in, so that lines a power
// of two apart do not share a bank. Precondition: the number of banks is a power of two.
std::uint32_t bank_of(std::uint64_t line, std::uint32_t banks) {
  const int bits = std::countr_zero(banks);
  std::uint64_t folded = 0;
  for (; line != 0; line >>= bits) folded ^= line;
  return static_cast<std::uint32_t>(folded & (banks - 1));
}

}  // namespace

DeviceMemory::DeviceMemory(const Timing& timing, Observer* observer)
    : timing_(timing), channel_bits_(std::countr_zero(timing.channels)) {
  for (std::uint32_t number = 0; number < timing.channels; ++number) {
    channels_.push_back({.dram = DramChannel(number, timing.dram, observer)});
  }
}

bool DeviceMemory::has_room(bool is_write, std::uint64_t first, std::uint32_t count) const {
  const std::size_t capacity = is_write ? timing_.write_queue : timing_.read_queue;
  const auto channels = static_cast<std::uint32_t>(channels_.size());
  for (std::uint32_t i = 0; i < channels && i < count; ++i) {
    const Channel& channel = channels_[channel_of(first + i)];
    const std::size_t lines = (count - i + channels - 1) / channels;
    if ((is_write ? channel.writes : channel.reads).size() + lines > capacity) return false;
  }
  return true;
}

void DeviceMemory::push(bool is_write, std::uint64_t line, std::uint64_t user, Picoseconds at) {
  Channel& channel = channels_[channel_of(line)];
  const std::uint32_t bank = bank_of(line >> channel_bits_, channel.dram.banks());
  (is_write ? channel.writes : channel.reads).push_back({.user = user, .bank = bank, .at = at});
  channel.wake = 0;
}

bool DeviceMemory::is_idle() const {
  return std::all_of(channels_.begin(), channels_.end(),
                     [](const Channel& channel) { return is_idle(channel); });
}

Picoseconds DeviceMemory::next_event() const {
  Picoseconds next = std::numeric_limits<Picoseconds>::max();
  for (const Channel& channel : channels_) {
    next = std::min(next, channel.dram.next_refresh());
    if (!is_idle(channel)) next = std::min(next, channel.wake);
  }
  return next;
}

void DeviceMemory::tick(Picoseconds now, std::vector<Done>& done) {
  for (Channel& channel : channels_) {
    if (channel.dram.refresh_if_due(now)) channel.wake = 0;
    while (channel.wake <= now && begin_one(channel, now, done)) {
    }
  }
}

// Among the accesses whose row can be opened by `now`, starts the one whose data come first, the
// oldest if several tie. If there is none, sets `wake` to the next time to try.
bool DeviceMemory::begin_one(Channel& channel, Picoseconds now, std::vector<Done>& done) {
  if (channel.writes.size() >= timing_.write_high || channel.reads.empty()) {
    channel.is_writing = true;
  } else if (channel.writes.size() <= timing_.write_low) {
    channel.is_writing = false;
  }
  std::vector<Wait>& queue = channel.is_writing ? channel.writes : channel.reads;
  const Picoseconds possible = channel.dram.next_activate();
  if (possible > now) {
    channel.wake = possible;
    return false;
  }
  channel.wake = std::numeric_limits<Picoseconds>::max();
  const Picoseconds soonest = channel.dram.next_column(channel.is_writing);
  auto best = queue.end();
  DramAccess chosen;
  for (auto wait = queue.begin(); wait != queue.end(); ++wait) {
    const Picoseconds ready = channel.dram.bank_ready(wait->bank);
    if (ready > now) {
      channel.wake = std::min(channel.wake, ready);
      continue;
    }
    const DramAccess access = channel.dram.probe(channel.is_writing, wait->bank, wait->at);
    if (access.activate > now) {
      channel.wake = std::min(channel.wake, access.activate);
    } else if (best == queue.end() || access.column < chosen.column) {
      best = wait;
      chosen = access;
      if (chosen.column <= soonest) break;
    }
  }
  if (best == queue.end()) return false;
  channel.dram.issue(chosen);
  done.push_back({.is_write = chosen.is_write, .user = best->user, .at = chosen.data_end});
  queue.erase(best);
  channel.wake = 0;
  return true;
}

}  // namespace nf::cxl
