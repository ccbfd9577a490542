// The cycle-level model: hosts, link, queue, memory and datapath around the functional reducer.
//
// Hosts have `outstanding` accesses in flight. An access that misses the last-level cache waits for
// its answer; an access that hits continues at once, and its line reaches the controller
// asynchronously. At the controller a request waits until the lines of its record have been read
// and passes the datapath in the order of arrival; then its record is written back to memory. A
// record that is still on the controller is not read again. The record of fp32 and identity is the
// line with the arrivals.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <vector>

#include "cxl/device_memory.h"
#include "cxl/layout.h"
#include "cxl/observer.h"
#include "cxl/pipeline.h"
#include "cxl/timing.h"
#include "cxl/workload.h"

namespace nf::cxl {

struct HostOptions {
  double miss_rate = 1;           // of the last-level cache
  std::uint32_t outstanding = 1;  // accesses in flight, of all hosts together
  std::uint64_t seed = 1;         // selects the accesses that miss
};

class Model {
 public:
  // Borrows the workload and the observer, which may be null.
  Model(const Timing& timing, const HostOptions& host, const Workload& workload,
        Observer* observer = nullptr);

  // One cycle of the controller.
  void tick();
  // Ticks until the last answer has been sent. Skips cycles in which nothing can happen.
  void run();

  bool is_done() const { return answered_ == workload_.requests(); }
  // Cycles until the hosts have received all answers.
  std::uint64_t cycles() const;

 private:
  struct Job {
    std::uint64_t number = 0;  // of the request
    Workload::Step step;
    bool is_posted = false;
    Picoseconds arrives = 0;
    LineAccesses accesses = {};
    std::uint32_t to_push = 0;  // lines not yet in the memory's queues
    std::uint32_t to_read = 0;  // lines not yet read
    bool folds = false;         // the slots have yet to be read
    Picoseconds ready = 0;      // when all lines read so far are available
  };

  Picoseconds now() const;
  void send(Picoseconds at);
  void accept(Picoseconds at);
  void fetch(Picoseconds at);
  bool push_reads(std::uint64_t sequence);
  void take_lines();
  void reduce(Picoseconds at);
  void retire(const Answer& answer, Picoseconds at);
  bool can_retire() const;
  void write_back(const Job& job, Picoseconds at);
  bool is_ready(const Job& job, Picoseconds at) const {
    return job.to_read == 0 && !job.folds && job.ready <= at;
  }
  void skip_idle_cycles();

  const Timing timing_;
  const HostOptions host_;
  const Workload& workload_;
  const Layout layout_;
  Observer* const observer_;

  Reducer reducer_;
  Pipeline pipeline_;
  DeviceMemory memory_;
  std::uint64_t cycle_ = 0;

  // Hosts and link.
  std::priority_queue<Picoseconds, std::vector<Picoseconds>, std::greater<>> free_;  // by access
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  std::uint32_t on_device_ = 0;  // requests on the device or in flight to it
  Picoseconds out_free_ = 0;
  Picoseconds back_free_ = 0;
  Picoseconds finished_ = 0;

  // The request queue, in the order of arrival: in the pipeline, waiting, on the link.
  std::deque<Job> jobs_;
  std::uint64_t first_job_ = 0;  // sequence number of jobs_.front()
  std::size_t in_pipeline_ = 0;
  std::size_t accepted_ = 0;
  std::size_t fetched_ = 0;              // jobs whose lines are in the memory's queues
  std::vector<std::uint64_t> folding_;   // sequence numbers
  std::vector<std::uint32_t> arrivals_;  // by line
  std::vector<std::uint32_t> users_;     // by line: jobs on the controller
  std::vector<std::uint32_t> queued_;    // by line: lines of its record in a write queue
  std::vector<DeviceMemory::Done> lines_;
};

}  // namespace nf::cxl
