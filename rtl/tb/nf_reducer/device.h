// The verilated reducer and its backing memory.
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

// A source of requests and a sink of their answers.
struct Traffic {
  std::function<std::optional<Request>()> next;  // empty at the end
  std::function<void(const Answer&)> answered;   // in the order of the requests
  std::string ready = "1";  // in cycle t the receiver is ready if [t mod size] is '1'
  std::uint64_t reset_at = ~std::uint64_t{0};  // after this cycle; later requests are not played
};

class Device {
 public:
  Device();
  ~Device();

  void reset();  // waits until the store is ready

  Limits limits();

  void write_wave(const std::string& file);  // records everything from here on

  // Plays the traffic until all requests are answered. Cycles count from 0; the pipeline is empty
  // at the start and at the end. Stores the number of cycles in `cycles`. Returns false on a
  // timeout.
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
