#include "device.h"

#include <verilated_vcd_c.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "Vnf_reducer.h"
#include "Vnf_reducer___024root.h"

namespace nf::rtl {
namespace {

constexpr std::uint64_t kTimeoutCycles = 1'000'000;  // cycles without an answer
constexpr int kAccessTimeout = 100'000;              // of a register, also after a reset

}  // namespace

Device::Device() : top_(std::make_unique<Vnf_reducer>()) { reset(); }

Device::~Device() {
  if (wave_) wave_->close();
  top_->final();
}

void Device::reset() {
  start_reset();
  wait_for([this] { return top_->register_ready_o; });
}

void Device::start_reset() {
  access_.reset();
  top_->rst_ni = 0;
  top_->valid_i = 0;
  top_->ready_i = 0;
  top_->register_valid_i = 0;
  top_->register_ready_i = 1;
  for (int i = 0; i < 3; ++i) tick();
  if (top_->valid_o || top_->register_valid_o) {
    std::printf("FAILED: an answer during a reset\n");
    std::exit(1);
  }
  top_->rst_ni = 1;
  tick();
}

void Device::write_wave(const std::string& file) {
  Verilated::traceEverOn(true);
  wave_ = std::make_unique<VerilatedVcdC>();
  top_->trace(wave_.get(), 1);
  wave_->open(file.c_str());
}

// Inputs are set and evaluated; the memory answers the access requested before the edge.
void Device::tick() {
  top_->clk_i = 0;
  top_->eval();
  if (wave_) wave_->dump(2 * time_);
  std::optional<Line> line;
  if (top_->line_read_o) {
    line = memory_[top_->line_read_address_o];
    ++line_reads_;
  }
  if (top_->line_write_o) {
    ++line_writes_;
    std::memcpy(memory_[top_->line_write_address_o].data(), &top_->line_o, sizeof(Line));
  }
  top_->clk_i = 1;
  top_->eval();
  if (line) std::memcpy(&top_->line_i, line->data(), sizeof(Line));
  if (wave_) wave_->dump(2 * time_ + 1);
  ++time_;
}

void Device::wait_for(const std::function<bool()>& is_done) {
  top_->eval();
  for (int cycle = 0; !is_done(); ++cycle) {
    if (cycle == kAccessTimeout) {
      std::printf("FAILED: the registers do not answer\n");
      std::exit(1);
    }
    tick();
    top_->eval();
  }
}

bool Device::play(const Traffic& traffic, std::uint64_t* cycles) {
  std::optional<Request> request = traffic.next();
  std::deque<std::uint64_t> taken;  // of requests in flight
  std::uint64_t cycle = 0, last = 0;
  for (; request || !taken.empty() || access_; ++cycle) {
    if (cycle - last > kTimeoutCycles && (!request || cycle > request->cycle + kTimeoutCycles))
      return false;
    top_->valid_i = request && cycle >= request->cycle;
    if (top_->valid_i) {
      top_->write_i = request->is_write;
      top_->address_i = request->address;
      std::memset(&top_->data_i, 0xff, sizeof(Line));  // no digits; the data of a read are ignored
      if (request->is_write) std::memcpy(&top_->data_i, request->data.data(), sizeof(Line));
    }
    top_->ready_i = traffic.ready[cycle % traffic.ready.size()] == '1';
    offer_access(traffic);
    top_->clk_i = 0;
    top_->eval();
    const bool takes = top_->valid_i && top_->ready_o;
    if (top_->valid_o && top_->ready_i) {
      if (taken.empty()) return false;  // an answer without a request
      Answer answer{.taken = taken.front(),
                    .answered = cycle,
                    .fault = static_cast<Fault>(top_->error_o),
                    .complete = top_->complete_o != 0};
      std::memcpy(answer.data.data(), &top_->data_o, sizeof(Line));
      taken.pop_front();
      last = cycle;
      traffic.answered(answer);
    }
    if (takes && access_) {
      std::printf("a request was taken during a register access\n");
      return false;
    }
    if (takes) {
      taken.push_back(cycle);
      if (traffic.taken) traffic.taken(*request);
      request = traffic.next();
    }
    follow_access(traffic);
    if (cycle == traffic.reset_at) {
      reset();
      return true;
    }
  }
  top_->valid_i = 0;
  top_->register_ready_i = 1;
  read_register(0);  // waits until the pipeline is empty
  if (cycles != nullptr) *cycles = cycle;
  return true;
}

void Device::offer(const RegisterAccess& access) {
  top_->register_valid_i = 1;
  top_->register_write_i = access.is_write;
  top_->register_address_i = static_cast<std::uint16_t>(access.offset);
  top_->register_data_i = access.value;
}

void Device::offer_access(const Traffic& traffic) {
  if (!traffic.access) return;
  top_->register_ready_i = top_->ready_i;
  if (access_) return;
  access_ = traffic.access();
  if (access_) offer(*access_);
}

// A register access must be stable only until it is taken.
void Device::withdraw() {
  top_->register_valid_i = 0;
  top_->register_address_i ^= 0xffff;
  top_->register_data_i = ~top_->register_data_i;
}

// Ends the cycle.
void Device::follow_access(const Traffic& traffic) {
  const bool is_taken = access_ && top_->register_valid_i && top_->register_ready_o;
  const bool is_answered = access_ && top_->register_valid_o && top_->register_ready_i;
  if (is_taken) traffic.access_taken(*access_);
  if (is_answered) {
    traffic.accessed(*access_, static_cast<Fault>(top_->register_error_o), top_->register_data_o);
    access_.reset();
  }
  tick();
  if (is_taken) withdraw();
}

Device::Access Device::access(const RegisterAccess& access) {
  offer(access);
  top_->clk_i = 0;
  wait_for([this] { return top_->register_ready_o; });
  tick();
  withdraw();
  wait_for([this] { return top_->register_valid_o; });
  const Access result{static_cast<Fault>(top_->register_error_o), top_->register_data_o};
  tick();
  return result;
}

Fault Device::write_register(std::uint64_t offset, std::uint64_t value) {
  return access({.is_write = true, .offset = offset, .value = value}).fault;
}

std::uint64_t Device::read_register(std::uint64_t offset) {
  return access({.offset = offset}).value;
}

Limits Device::limits() {
  const std::uint64_t word = read_register(0x08);
  return {.planes = static_cast<std::uint32_t>(word & 0xff),
          .workers = static_cast<std::uint32_t>(word >> 8 & 0xffff),
          .regions = static_cast<std::uint32_t>(word >> 24 & 0xff),
          .records = static_cast<std::uint32_t>(word >> 32)};
}

Fault Device::enable(unsigned region, const RegionConfig& config) {
  const std::uint64_t at = 0x100 + 0x80 * std::uint64_t{region};
  write_register(at + 0x08, config.mode);
  write_register(at + 0x10, config.workers);
  write_register(at + 0x18, config.base);
  write_register(at + 0x20, config.length);
  write_register(at + 0x28, config.stride);
  write_register(at + 0x30, config.store);
  return control(region, 1);
}

Fault Device::control(unsigned region, std::uint64_t value) {
  return write_register(0x100 + 0x80 * std::uint64_t{region}, value);
}

void Device::flip(std::uint64_t record, std::uint64_t bit) {
  top_->rootp->nf_reducer__DOT__i_store__DOT__records[record][bit / 32] ^= 1u << bit % 32;
}

void Device::set_generation(std::uint32_t generation) {
  top_->rootp->nf_reducer__DOT__i_registers__DOT__generation_q = generation;
}

void Device::set_assertions(bool is_on) { top_->contextp()->assertOn(is_on); }

}  // namespace nf::rtl
