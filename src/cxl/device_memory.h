// The device's memory: lines over channels and banks, reads before writes until writes pile up.
#pragma once

#include <cstdint>
#include <vector>

#include "cxl/dram_channel.h"

namespace nf::cxl {

class DeviceMemory {
 public:
  // Precondition: a power of two of channels.
  DeviceMemory(const Timing& timing, Observer* observer);

  // Whether the channel of every one of `count` lines from `first` on has room for them.
  bool has_room(bool is_write, std::uint64_t first, std::uint32_t count) const;
  // Precondition: has_room() for this line. `user` comes back when the line has been read, or its
  // write has begun.
  void push(bool is_write, std::uint64_t line, std::uint64_t user, Picoseconds at);

  struct Done {
    bool is_write = false;
    std::uint64_t user = 0;
    Picoseconds at = 0;  // of a read: when its data are there
  };
  // Lets every channel begin what may begin by `now`, and appends it to `done`.
  void tick(Picoseconds now, std::vector<Done>& done);

  bool is_idle() const;
  // Before this, tick() does nothing.
  Picoseconds next_event() const;

 private:
  struct Wait {
    std::uint64_t user = 0;
    std::uint32_t bank = 0;
    Picoseconds at = 0;
  };
  struct Channel {
    DramChannel dram;
    std::vector<Wait> reads = {};  // the oldest first
    std::vector<Wait> writes = {};
    bool is_writing = false;
    Picoseconds wake = 0;  // nothing that waits can begin before
  };

  static bool is_idle(const Channel& channel) {
    return channel.reads.empty() && channel.writes.empty();
  }
  std::uint32_t channel_of(std::uint64_t line) const {
    return static_cast<std::uint32_t>(line & (timing_.channels - 1));
  }
  bool begin_one(Channel& channel, Picoseconds now, std::vector<Done>& done);

  const Timing timing_;
  const int channel_bits_;
  std::vector<Channel> channels_;
};

}  // namespace nf::cxl
