// The verilated reducer, and the memory behind it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "line.h"

class Vnf_reducer;
class VerilatedVcdC;

namespace nf::rtl {

// Where requests come from, and where their answers go.
struct Traffic {
  std::function<std::optional<Request>()> next;  // empty at the end
  std::function<void(const Answer&)> answered;   // in the order of the requests
  std::string ready = "1";  // in cycle t the receiver is ready where [t mod size] is '1'
  std::uint64_t reset_at = ~std::uint64_t{0};  // after this cycle; what follows is not played
};

class Device {
 public:
  Device();
  ~Device();

  void reset();  // and waits until the store is ready

  Limits limits();

  void write_wave(const std::string& file);  // of all that happens from here on

  // Plays the traffic until all of it is answered. Cycles are counted from 0, the pipeline is empty
  // at both ends. Returns how many it took; false where nothing came for a very long time.
  bool play(const Traffic& traffic, std::uint64_t* cycles = nullptr);

  Fault write_register(std::uint64_t offset, std::uint64_t value);
  std::uint64_t read_register(std::uint64_t offset);

  Fault enable(unsigned region, const RegionConfig& config);
  Fault control(unsigned region, std::uint64_t value);

 private:
  struct Access {
    Fault fault;
    std::uint64_t value;
  };

  void tick();
  Access access(bool is_write, std::uint64_t offset, std::uint64_t value);

  std::unique_ptr<Vnf_reducer> top_;
  std::unique_ptr<VerilatedVcdC> wave_;
  std::uint64_t time_ = 0;
  std::unordered_map<std::uint64_t, Line> memory_;
};

}  // namespace nf::rtl
