#include "device.h"

#include <verilated_vcd_c.h>

#include <cstring>
#include <deque>

#include "Vnf_reducer.h"

namespace nf::rtl {
namespace {

constexpr std::uint64_t kTimeoutCycles = 1'000'000;  // cycles without an answer

}  // namespace

Device::Device() : top_(std::make_unique<Vnf_reducer>()) { reset(); }

Device::~Device() {
  if (wave_) wave_->close();
  top_->final();
}

void Device::reset() {
  top_->rst_ni = 0;
  top_->valid_i = 0;
  top_->ready_i = 0;
  top_->register_valid_i = 0;
  top_->register_ready_i = 1;
  for (int i = 0; i < 3; ++i) tick();
  top_->rst_ni = 1;
  tick();
  while (!top_->register_ready_o) tick();
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
  if (top_->line_read_o) line = memory_[top_->line_read_address_o];
  if (top_->line_write_o) {
    std::memcpy(memory_[top_->line_write_address_o].data(), &top_->line_o, sizeof(Line));
  }
  top_->clk_i = 1;
  top_->eval();
  if (line) std::memcpy(&top_->line_i, line->data(), sizeof(Line));
  if (wave_) wave_->dump(2 * time_ + 1);
  ++time_;
}

bool Device::play(const Traffic& traffic, std::uint64_t* cycles) {
  std::optional<Request> request = traffic.next();
  std::deque<std::uint64_t> taken;  // of requests in flight
  std::uint64_t cycle = 0, last = 0;
  for (; request || !taken.empty(); ++cycle) {
    if (cycle - last > kTimeoutCycles && (!request || cycle > request->cycle + kTimeoutCycles))
      return false;
    top_->valid_i = request && cycle >= request->cycle;
    if (top_->valid_i) {
      top_->write_i = request->is_write;
      top_->address_i = request->address;
      std::memcpy(&top_->data_i, request->data.data(), sizeof(Line));
    }
    top_->ready_i = traffic.ready[cycle % traffic.ready.size()] == '1';
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
    if (takes) {
      taken.push_back(cycle);
      request = traffic.next();
    }
    tick();
    if (cycle == traffic.reset_at) {
      reset();
      return true;
    }
  }
  top_->valid_i = 0;
  read_register(0);  // waits until the pipeline is empty
  if (cycles != nullptr) *cycles = cycle;
  return true;
}

Device::Access Device::access(bool is_write, std::uint64_t offset, std::uint64_t value) {
  top_->register_valid_i = 1;
  top_->register_write_i = is_write;
  top_->register_address_i = static_cast<std::uint16_t>(offset);
  top_->register_data_i = value;
  top_->clk_i = 0;
  top_->eval();
  while (!top_->register_ready_o) {
    tick();
    top_->eval();
  }
  tick();
  top_->register_valid_i = 0;
  top_->eval();
  while (!top_->register_valid_o) tick();
  const Access result{static_cast<Fault>(top_->register_error_o), top_->register_data_o};
  tick();
  return result;
}

Fault Device::write_register(std::uint64_t offset, std::uint64_t value) {
  return access(true, offset, value).fault;
}

std::uint64_t Device::read_register(std::uint64_t offset) { return access(false, offset, 0).value; }

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

}  // namespace nf::rtl
