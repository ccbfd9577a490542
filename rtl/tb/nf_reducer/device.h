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

struct RegisterAccess {
  bool is_write = false;
  std::uint64_t offset = 0;
  std::uint64_t value = 0;  // of a write
};

// A source of requests and a sink of their answers. Register accesses may be made at the same time:
// each waits until the requests that were taken before it are answered, and later requests wait for
// it.
struct Traffic {
  std::function<std::optional<Request>()> next;  // empty at the end
  std::function<void(const Answer&)> answered;   // in the order of the requests
  std::function<void(const Request&)> taken = {};
  // Called in every cycle without an access; and with the answer of the access.
  std::function<std::optional<RegisterAccess>()> access = {};
  std::function<void(const RegisterAccess&)> access_taken = {};
  std::function<void(const RegisterAccess&, Fault, std::uint64_t value)> accessed = {};
  std::string ready = "1";  // in cycle t the receiver is ready if [t mod size] is '1'
  std::uint64_t reset_at = ~std::uint64_t{0};  // after this cycle; later requests are not played
};

class Device {
 public:
  Device();
  ~Device();

  void reset();  // waits until the store is ready
  void start_reset();

  Limits limits();
  std::uint64_t cycles() const { return time_; }
  // Accesses of the backing memory.
  std::uint64_t line_reads() const { return line_reads_; }
  std::uint64_t line_writes() const { return line_writes_; }

  void write_wave(const std::string& file);  // records everything from here on

  // Plays the traffic until all requests are answered. Cycles count from 0; the pipeline is empty
  // at the start and at the end. Stores the number of cycles in `cycles`. Returns false on a
  // timeout.
  bool play(const Traffic& traffic, std::uint64_t* cycles = nullptr);

  Fault write_register(std::uint64_t offset, std::uint64_t value);
  std::uint64_t read_register(std::uint64_t offset);

  Fault enable(unsigned region, const RegionConfig& config);
  Fault control(unsigned region, std::uint64_t value);

  // Faults of the hardware, and states that take too long to reach. Bits of a record are numbered
  // as in docs/rtl.md.
  void flip(std::uint64_t record, std::uint64_t bit);
  void set_generation(std::uint32_t generation);  // the last one assigned
  void set_assertions(bool is_on);                // of rtl/formal

 private:
  struct Access {
    Fault fault;
    std::uint64_t value;
  };

  void tick();
  void wait_for(const std::function<bool()>& is_done);  // ends the program if that takes too long
  void offer(const RegisterAccess& access);
  void withdraw();
  void offer_access(const Traffic& traffic);
  void follow_access(const Traffic& traffic);
  Access access(const RegisterAccess& access);

  std::unique_ptr<Vnf_reducer> top_;
  std::unique_ptr<VerilatedVcdC> wave_;
  std::uint64_t time_ = 0, line_reads_ = 0, line_writes_ = 0;
  std::unordered_map<std::uint64_t, Line> memory_;
  std::optional<RegisterAccess> access_;  // in progress during play()
};

}  // namespace nf::rtl
