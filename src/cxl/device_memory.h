// The device's memory: lines interleaved over channels and banks. Reads go before writes until the
// write queue fills up.
#pragma once

#include <cstdint>
#include <vector>

#include "cxl/dram_channel.h"

namespace nf::cxl {

class DeviceMemory {
 public:
  // Precondition: the number of channels is a power of two.
  DeviceMemory(const Timing& timing, Observer* observer);

  // Whether the queues of all channels have room for `count` lines from `first` on.
  bool has_room(bool is_write, std::uint64_t first, std::uint32_t count) const;
  // Precondition: has_room() for this line. tick() returns `user` when the line has been read or
  // its write has started.
  void push(bool is_write, std::uint64_t line, std::uint64_t user, Picoseconds at);

  struct Done {
    bool is_write = false;
    std::uint64_t user = 0;
    Picoseconds at = 0;  // for a read, when its data are available
  };
  // Starts all accesses that may start by `now` and appends them to `done`.
  void tick(Picoseconds now, std::vector<Done>& done);

  bool is_idle() const;
  // tick() is a no-op before this time.
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
    Picoseconds wake = 0;  // no waiting access can start before
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
