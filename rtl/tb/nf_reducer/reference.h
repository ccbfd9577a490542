// What the reducer must answer and when, told as plainly as can be: a counter is an int, a pipeline
// an array. It shares no code with src/cxl, so that the two and the RTL are three witnesses.
#pragma once

#include <string>
#include <vector>

#include "line.h"

namespace nf::rtl {

class Reference {
 public:
  Reference(const Limits& limits, unsigned latency);

  // `config` must be one that the device enables.
  void enable(unsigned region, const RegionConfig& config);

  std::vector<Answer> play(const std::vector<Request>& requests, const std::string& ready);

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
  };

  Answer handle(const Request& request, unsigned& fold);
  Answer write(Region& region, Record& record, std::uint64_t worker, const Line& data,
               unsigned& fold);
  Answer read(const Region& region, const Record& record, std::uint64_t window);

  unsigned latency_;
  std::vector<Region> regions_;
};

// Windows that hold results of so many workers.
unsigned result_windows(Mode mode, std::uint64_t workers);

}  // namespace nf::rtl
