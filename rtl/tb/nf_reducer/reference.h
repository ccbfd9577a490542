// A reference of the reducer's answers and their cycles, as simple as possible: a counter is an
// int, a pipeline an array. It shares no code with src/cxl, so model, reference and RTL are
// independent.
#pragma once

#include <string>
#include <vector>

#include "line.h"

namespace nf::rtl {

class Reference {
 public:
  Reference(const Limits& limits, unsigned latency);

  // Precondition: the device accepts `config`.
  void enable(unsigned region, const RegionConfig& config);

  std::vector<Answer> play(const std::vector<Request>& requests, const std::string& ready);

  // The same without cycles, one request at a time; and the registers.
  Answer answer(const Request& request);
  void clear(unsigned region);
  void clear_error(unsigned region) { regions_[region].error = {}; }
  std::uint64_t completed(unsigned region) const { return regions_[region].completed; }
  struct Error {
    Fault fault = Fault::kOk;
    std::uint64_t address = 0;
  };
  const Error& error(unsigned region) const { return regions_[region].error; }
  const Error& device_error() const { return device_error_; }

 private:
  struct Record {
    std::vector<bool> arrived;
    std::vector<int> counts;
    std::vector<Line> slots;
    Line sum = {};
  };
  struct Region {
    RegionConfig config;
    bool is_enabled = false;
    std::vector<Record> records;
    std::uint64_t completed = 0;
    Error error = {};
  };

  Answer handle(const Request& request, unsigned& fold, Region*& owner);
  Answer write(Region& region, Record& record, std::uint64_t worker, const Line& data,
               unsigned& fold);
  Answer read(const Region& region, const Record& record, std::uint64_t window);

  unsigned latency_;
  std::vector<Region> regions_;
  Error device_error_;
};

// Result windows for so many workers.
unsigned result_windows(Mode mode, std::uint64_t workers);

}  // namespace nf::rtl
