#include "cxl/run.h"

#include <cmath>
#include <ctime>

namespace nf::cxl {
namespace {

constexpr double kMinRelative = 0.001;

// Compares every answer with the expected one, and counts lines.
class Check : public Observer {
 public:
  Check(const Workload& workload, const std::vector<Line>& expected)
      : workload_(workload), expected_(expected) {}

  void on_answer(std::uint64_t number, const Answer& answer, Picoseconds) override {
    ++answers_;
    const bool is_read = number >= workload_.writes();
    if (answer.fault != Fault::kOk ||
        (is_read && answer.data != expected_[number - workload_.writes()])) {
      ++wrong_;
    }
  }
  void on_access(const DramAccess&) override { ++accesses_; }

  bool correct() const { return wrong_ == 0 && answers_ == workload_.requests(); }
  std::uint64_t bytes() const { return accesses_ * kLineBytes; }

 private:
  const Workload& workload_;
  const std::vector<Line>& expected_;
  std::uint64_t answers_ = 0;
  std::uint64_t wrong_ = 0;
  std::uint64_t accesses_ = 0;
};

// CPU time of this process, which uses one core, so that other load does not count.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// CPU time of the functional model for all requests.
double time_functional_model(const Workload& workload) {
  Reducer reducer({.records = workload.options().lines});
  reducer.enable(0, workload.config());
  const double begin = processor_seconds();
  for (std::uint64_t number = 0; number < workload.requests(); ++number) {
    reducer.handle(workload.request(workload.step(number)));
  }
  return processor_seconds() - begin;
}

}  // namespace

double RunResult::deviation() const {
  const double difference = std::fabs(exposed_overhead() - formula.overhead());
  return formula.overhead() >= kMinRelative ? difference / formula.overhead() : difference;
}

Expected<RunResult> run(const RunOptions& options) {
  const Workload workload(options.workload);
  const Expected<std::vector<Line>> expected = workload.expected_reads();
  if (!expected) return expected.status();
  RunResult result{.requests = workload.requests(),
                   .formula = predict(options.timing, options.host, workload),
                   .correct = true};
  result.functional_seconds = time_functional_model(workload);
  const double begin = processor_seconds();
  for (unsigned repeat = 0; repeat < options.repeats; ++repeat) {
    for (const bool is_baseline : {true, false}) {
      Timing timing = options.timing;
      timing.dram.seed = repeat;
      if (is_baseline) timing.stages = 0;
      Check check(workload, *expected);
      Model model(timing, options.host, workload, &check);
      model.run();
      const double cycles = static_cast<double>(model.cycles()) / options.repeats;
      (is_baseline ? result.baseline_cycles : result.cycles) += cycles;
      result.correct = result.correct && check.correct();
      result.dram_bytes = check.bytes();
      result.simulated += workload.requests();
    }
  }
  result.seconds = processor_seconds() - begin;
  return result;
}

}  // namespace nf::cxl
